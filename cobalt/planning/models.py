"""Shapes of models, as their published ``config.json`` gives them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from cobalt.errors import InputError
from cobalt.training.sizes import Sizes, sizes


@dataclass(frozen=True)
class Model:
    """A dense decoder. ``params_b``: billions of parameters with embeddings; the rest as in config.json."""

    name: str
    params_b: float
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    inner: int
    vocabulary: int
    tied: bool = True

    @property
    def sizes(self) -> Sizes:
        """The same as training takes it."""
        return Sizes(
            self.width, self.layers, self.heads, self.kv_heads, self.head_dim, self.inner, self.vocabulary,
            self.tied,
        )  # fmt: skip

    def cache_mb(self, bytes_per_value: float) -> float:
        """MB (10^6 bytes) of keys and values of 1,000 tokens: 2 x layers x kv heads x head size x bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_per_value / 1000


_KNOWN = [
    Model("tiny-reference", 0.000436, 4, 4, 2, 24, 96, 256, 313),
    Model("Qwen/Qwen2.5-Coder-0.5B-Instruct", 0.494, 24, 14, 2, 64, 896, 4864, 151_936),
    Model("Qwen/Qwen3-0.6B", 0.596, 28, 16, 8, 128, 1024, 3072, 151_936),
    Model("Qwen/Qwen2.5-Coder-1.5B-Instruct", 1.544, 28, 12, 2, 128, 1536, 8960, 151_936),
    Model(
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", 1.777, 28, 12, 2, 128, 1536, 8960, 151_936, tied=False
    ),
    Model("Qwen/Qwen3-1.7B", 1.721, 28, 16, 8, 128, 2048, 6144, 151_936),
    Model("Qwen/Qwen3-4B", 4.022, 36, 32, 8, 128, 2560, 9728, 151_936),
    Model("Qwen/Qwen2.5-Coder-7B-Instruct", 7.616, 28, 28, 4, 128, 3584, 18_944, 152_064, tied=False),
    Model(
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 8.030, 32, 32, 8, 128, 4096, 14_336, 128_256, tied=False
    ),
    Model("Qwen/Qwen3-8B", 8.191, 36, 32, 8, 128, 4096, 12_288, 151_936, tied=False),
    Model("Qwen/Qwen3-14B", 14.768, 40, 40, 8, 128, 5120, 17_408, 151_936, tied=False),
    Model("Qwen/Qwen3-32B", 32.762, 64, 64, 8, 128, 5120, 25_600, 151_936, tied=False),
]
KNOWN = {model.name: model for model in _KNOWN}
SIZES = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B")


def shape(name: str, folder: Path | None = None) -> Model:
    """The shape of a model by its hub name, or from ``config.json`` in ``folder``.

    Raises InputError for a name that is not in the table and no folder.
    """
    if folder is not None and (folder / "config.json").is_file():
        return _read(folder)
    known = KNOWN.get(name) or KNOWN.get(Path(name).name)
    if known is not None:
        return known
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    advice = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(
        f"the shape of model '{name}' is not known{advice} Give a local folder with its config.json, or one "
        f"of: {', '.join(KNOWN)}"
    )


def _read(folder: Path) -> Model:
    of = sizes(folder)
    if of is None:
        raise InputError(f"{folder / 'config.json'}: sizes of a dense decoder are missing")
    return Model(
        folder.name, of.parameters / 1e9, of.layers, of.heads, of.kv_heads, of.head_dim, of.width, of.inner,
        of.vocabulary, of.tied,
    )  # fmt: skip
