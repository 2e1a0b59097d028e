"""Where evaluated rows come from: which model, recipe and tasks, and whether it was a rehearsal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.manifest import flatten, read_manifest

RUN_FILE = "run.json"
SPLITS = ("train", "dev", "heldout")
REHEARSAL = "a smoke run: it shows that every stage works, its figures say nothing about the method"
_VERSIONS = ("cobalt", "verl", "vllm", "torch")
_LONGEST = 160  # characters of a setting that are shown
_RECIPES = {"reference": None, "single_turn_training": "first turns only (control)"}


@dataclass(frozen=True)
class Origin:
    """What is known of an evaluated file, None where nothing says it.

    `config`: the name of the run's configuration; `changed`: settings given beside it; `data`: the tasks in
    words; `set`: the name of the evaluation set; `recipe` is None for a model that this run did not train.
    """

    model: str | None = None
    recipe: str | None = None
    data: str | None = None
    set: str | None = None
    config: str | None = None
    changed: tuple[str, ...] = ()
    smoke: bool = False


def lineage(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A file with its manifest, then what it was made from, as far as that can be found."""
    seen = set[Path]()
    while path.absolute() not in seen and (manifest := read_manifest(path)) is not None:
        yield path, manifest
        seen.add(path.absolute())
        before = ((manifest.get("inputs") or {}).get("input_file") or {}).get("path")
        # Paths in manifests are as they were given, so they may be relative to another folder.
        near = [Path(before), path.with_name(Path(before).name)] if before else []
        path = next((each for each in near if each.exists() and each.absolute() not in seen), path)


def steps(path: Path) -> Iterator[str]:
    """How a file was made, step by step backwards, as far as manifests say: a line of Markdown each, without
    the folders of this machine.
    """
    for file, manifest in lineage(path):
        versions = manifest.get("versions", {})
        facts = {**flatten(manifest.get("settings", {})), **flatten(manifest.get("counts", {}))}
        facts |= {name: versions.get(name) for name in _VERSIONS}
        said = "; ".join(f"{name} {_quoted(value)}" for name, value in facts.items() if value is not None)
        door = Path(next(iter(manifest.get("argv") or ["?"]))).name
        yield f"- `{file.name}`, by `{door}` on {manifest.get('created', '?')}: {said}"


def _quoted(value: Any) -> str:
    text = Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else str(value)
    return f"`{' '.join(text.split()).replace('`', '')[:_LONGEST]}`"


def model_of(path: Path) -> str | None:
    """The model that made evaluated rows, as the manifest of the file they were made from names it."""
    models = (manifest.get("settings", {}).get("model") for _, manifest in lineage(path))
    return next((str(model) for model in models if model is not None), None)


def origin(path: Path) -> Origin:
    """What the manifests of a file and of what it was made from, and the `run.json` above it, say of it."""
    manifests = [manifest for _, manifest in lineage(path)]
    inputs = [(each.get("inputs") or {}).get("input_file") or {} for each in manifests]
    tasks = next((Path(each["path"]).name for each in reversed(inputs) if each.get("path")), None)
    smoke = any("--smoke" in (each.get("argv") or ()) for each in manifests)
    file, alone = path.absolute(), Origin(model=model_of(path), data=tasks, smoke=smoke)
    folder = next((each for each in file.parents[:3] if (each / RUN_FILE).is_file()), None)
    return alone if folder is None else _of_run(file, folder, alone)


def _of_run(file: Path, folder: Path, found: Origin) -> Origin:
    try:
        run = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
        config = run["identity"]["config"]
        recipe, name = Path(config["train"]["recipe"]).stem, config["name"]
        sets = {each["name"]: each["source"] for each in config["evaluate"]["sets"]}
    except (OSError, ValueError, KeyError, TypeError):
        return found  # a run.json of others: the manifests alone speak
    kind, *inner = file.relative_to(folder).parts
    arm = file.stem.removesuffix("_eval")
    chosen = inner[0] if len(inner) > 1 else next(iter(sets), "")
    source, family = sets.get(chosen), config["tasks"]["family"]
    if kind == "perturb":
        chosen, source = "perturbed", (config.get("perturb") or {}).get("source")
    about = run.get("about") or {}
    return Origin(
        model=about.get("model") or found.model, recipe=_RECIPES.get(arm, recipe),
        data=data_words(chosen, source, family), set=chosen, config=name,
        changed=tuple(about.get("changed") or ()),
        smoke=found.smoke or bool(about.get("smoke")),
    )  # fmt: skip


def data_words(name: str, source: Any, family: str) -> str:
    """An evaluation set in words, with what its tasks really are: `livecodebench (tiny tasks, heldout)`."""
    real = f"{family} tasks, {source}" if source in SPLITS else source
    words = name.replace("heldout", "held-out").replace("_", " ")
    return words if real is None else f"{words} ({real})"


def rehearsals(runs: Iterable[tuple[str, Path]]) -> list[str]:
    """A note for each named file that a smoke run made."""
    return [f"{name} is of {REHEARSAL}" for name, path in runs if origin(path).smoke]
