"""Measure a step of TRL's GRPOTrainer with our reward beside one with a constant, in turn and in one run.

    .venv-trl/bin/python benchmarks/trl_step.py [--layers N] [--steps N] [--reward NAME]

The model writes real programs: the tiny reference, made slower by layers that add nothing to what it says.
Needs the environment of `make test-integrations`.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cobalt.cli import parser, positive_int, run_main  # noqa: E402


def slowed(layers: int) -> Any:
    """The tiny reference with so many layers more, whose outputs are zero."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    path = ROOT / "models" / "tiny-reference"
    small, config = AutoModelForCausalLM.from_pretrained(path), AutoConfig.from_pretrained(path)
    config.num_hidden_layers += layers
    config.layer_types += ["full_attention"] * layers
    made = AutoModelForCausalLM.from_config(config)
    made.load_state_dict(small.state_dict(), strict=False)
    with torch.no_grad():
        for layer in made.model.layers[config.num_hidden_layers - layers :]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return made


def main(argv: list[str] | None = None) -> int:
    flags = parser("A step of TRL's GRPOTrainer with our reward beside one with a constant.")
    flags.add_argument("--layers", type=int, default=100, help="layers added to the tiny reference")
    flags.add_argument("--steps", type=positive_int, default=7, help="steps of each kind, after one of each")
    flags.add_argument("--reward", default="shaped", help="shaped, passed or FILE.py:NAME")
    flags.add_argument("--completions", type=positive_int, default=64, help="per step, eight of a prompt")
    args = flags.parse_args(argv)
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from cobalt.integrations.trl import code_reward, overlapped, prompts

    ours = code_reward("tiny", reward=args.reward, profile="plain")
    ends: list[float] = []
    asked: list[float] = []

    class Timed(GRPOTrainer):
        """Every second step has a constant reward."""

        def training_step(self, *given: Any, **named: Any) -> Any:
            self.reward_funcs[0] = ours if len(ends) % 2 else lambda prompts, **_: [0.5] * len(prompts)
            made = super().training_step(*given, **named)
            ends.append(time.perf_counter())
            return made

        def _calculate_rewards(self, *given: Any) -> Any:
            began = time.perf_counter()
            made = super()._calculate_rewards(*given)
            asked.append(time.perf_counter() - began)
            return made

    config = GRPOConfig(
        tempfile.mkdtemp(), per_device_train_batch_size=args.completions, num_generations=8, use_cpu=True,
        max_completion_length=128, max_steps=2 * args.steps + 2, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Timed(
        slowed(args.layers), ours, config, train_dataset=Dataset.from_list(prompts("tiny", "tiny")),
        processing_class=AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-reference"),
    )  # fmt: skip
    overlapped(trainer).train()
    took = [end - begin for begin, end in itertools.pairwise(ends)][1:]
    constant, own = took[::2], took[1::2]  # the first of each kind is left out
    for name, values in (("constant", constant), ("ours", own), ("waited for rewards", asked[3::2])):
        listed = " ".join(f"{value:.2f}" for value in values)
        print(f"{name}: median {statistics.median(values):.2f} s ({listed})")
    ratio = statistics.median(own) / statistics.median(constant)
    print(f"ratio {ratio:.3f}, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    run_main(main)
