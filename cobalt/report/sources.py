"""What a report is made from: evaluated files, turn errors, a judge's verdicts, metrics, manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.analysis.runs import named_paths
from cobalt.analysis.verdicts import content_hash
from cobalt.errors import InputError
from cobalt.files import file_sha256
from cobalt.manifest import manifest_path, read_manifest
from cobalt.prompts import JUDGE_FIELDS
from cobalt.rows import Row, read_rows

EVALUATED, ERRORS, JUDGED, METRICS = "evaluated", "turn errors", "judged", "metrics"
_IN_FOLDERS = {  # of a run of `cobalt run`: what belongs into its report, in this order
    "evaluate/reference_eval.jsonl": "reference",
    "evaluate/cobalt_eval.jsonl": "cobalt",
    "evaluate/single_turn_training_eval.jsonl": "single_turn_training",
    "controls/control_blank_eval.jsonl": "control_blank",
    "controls/control_other_eval.jsonl": "control_other",
}
_CURVES = {"train/metrics.jsonl": "cobalt", "train_single/metrics.jsonl": "single_turn_training"}


@dataclass
class Sources:
    """Everything found, by name. `errors` and `judged` are by the name of the evaluation they were made from.

    `places`: (id, sample, turn) of turn errors with the judge's verdict (None: not judged), by evaluation.
    """

    evaluated: dict[str, Path] = field(default_factory=dict)
    errors: dict[str, Path] = field(default_factory=dict)
    judged: dict[str, Path] = field(default_factory=dict)
    metrics: dict[str, Path] = field(default_factory=dict)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)
    error_summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    judge_summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, dict[tuple[str | int, int, int], str | None]] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """All files of rows."""
        groups = (self.evaluated, self.errors, self.judged, self.metrics)
        return [path for group in groups for path in group.values()]


def find(arguments: Sequence[str]) -> Sources:
    """Look at files and folders (`PATH` or `NAME=PATH`) and sort them by what their rows are.

    A folder is that of a run (`cobalt run`: its evaluations, controls, trainings and stages) or holds files
    directly; a file tells by its first row what it is. Raises InputError for a file that is none of these, a
    folder without any evaluated rows, turn errors or verdicts made from a file that is not among the
    evaluated ones, and if there is no evaluated file at all.
    """
    found = Sources()
    attached: list[tuple[str, Path]] = []
    for name, path in _expanded(arguments, found):
        kind = _kind(path)
        if kind == EVALUATED:
            _put(found.evaluated, name, path)
        elif kind == METRICS:
            _put(found.metrics, name if name != "metrics" else path.absolute().parent.name, path)
        else:
            attached.append((kind, path))
    if not found.evaluated:
        raise InputError(
            f"no evaluated rows in {' '.join(map(str, arguments))}: run eval_multi_turn.py first, and name "
            "its output or the folder of a run"
        )
    _attach(found, attached)
    for path in found.files:
        _add_manifests(found, path)
    return found


def _expanded(arguments: Sequence[str], found: Sources) -> Iterator[tuple[str, Path]]:
    files = [argument for argument in arguments if not Path(argument.rpartition("=")[2]).is_dir()]
    named = dict(zip(files, named_paths(files), strict=True))
    folders = [argument for argument in arguments if argument not in named]
    for argument in arguments:
        if argument in named:
            yield named[argument]
            continue
        label, _, text = argument.rpartition("=")
        folder = Path(text)
        prefix = f"{label}/" if label else f"{folder.absolute().name}/" if len(folders) > 1 else ""
        inside = list(_of_run(folder, found) if (folder / "run.json").exists() else _of_folder(folder))
        if not inside:
            raise InputError(f"{folder}: there are no evaluated rows, turn errors or metrics in this folder")
        yield from ((prefix + name, path) for name, path in inside)


def _of_run(folder: Path, found: Sources) -> Iterator[tuple[str, Path]]:
    for inner, name in (_IN_FOLDERS | _CURVES).items():
        if (folder / inner).exists():
            yield name, folder / inner
    for path in sorted((folder / "stages").glob("*.json")):
        try:
            found.stages.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{path}: not valid JSON ({error})") from None
    found.stages.sort(key=lambda stage: str(stage.get("ended", "")))
    for path in sorted(folder.glob("*/*.manifest.json")):
        _add_manifests(found, path.with_name(path.name.removesuffix(".manifest.json")))
    found.manifests[str(folder / "run.json")] = json.loads((folder / "run.json").read_text(encoding="utf-8"))


def _of_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("*.jsonl")):
        if not path.name.endswith((".failures.jsonl", ".rejects.jsonl")) and _kind(path, missing=""):
            yield path.stem.removesuffix("_eval"), path


def _kind(path: Path, missing: str | None = None) -> str:
    """What the rows of a file are, by the first; `missing` instead of an error for other rows."""
    first: Row = next((row for _, row in read_rows(path, repair=missing is not None)), {})
    if "all_pass_rates" in first:
        return EVALUATED
    if set(JUDGE_FIELDS) <= set(first):
        return JUDGED if "classification" in first else ERRORS
    if "step" in first:
        return METRICS
    if not first and "places" in (_json(Path(f"{path}.summary.json")) or {}):
        return ERRORS  # no turn accepted a wrong test
    if missing is not None:
        return missing
    what = f"its first row has the fields {', '.join(list(first)[:6])}" if first else "it has no rows"
    raise InputError(
        f"{path}: {what}; a report needs rows of eval_multi_turn.py, extract_turn_level_errors.py or "
        "run_llm_judge.py, or training metrics"
    )


def _put(table: dict[str, Path], name: str, path: Path) -> None:
    if name in table:
        raise InputError(f"{path} and {table[name]} are both named {name!r}; name them as NAME=PATH")
    table[name] = path


def _attach(found: Sources, files: Sequence[tuple[str, Path]]) -> None:
    """Give turn errors to the evaluation they were made from, and verdicts to those turn errors."""
    if not files:
        return
    made_from = {file_sha256(path): name for name, path in found.evaluated.items()}
    by_hash: dict[str, str] = {}
    for path in (path for kind, path in files if kind == ERRORS):
        summary = _json(Path(f"{path}.summary.json"))
        name = made_from.get(_input_sha256(path) or "", "")
        if not name or summary is None:
            raise InputError(
                f"{path}: not made from one of the evaluated files given (by its manifest), or its "
                "summary.json is gone; run extract_turn_level_errors.py again"
            )
        _put(found.errors, name, path)
        by_hash[file_sha256(path)] = name
        found.error_summaries[name] = summary
        rows = [row for _, row in read_rows(path)]
        hashes = [content_hash(row) for row in rows]
        places = [(place[0], place[1], place[2]) for place in summary["places"]]
        found.places[name] = dict.fromkeys(places)
        for judged in (other for kind, other in files if kind == JUDGED):
            if _input_sha256(judged) == file_sha256(path):
                verdicts = {content_hash(row): row.get("verdict") for _, row in read_rows(judged)}
                _put(found.judged, name, judged)
                found.judge_summaries[name] = _json(Path(f"{judged}.summary.json")) or {}
                for place, key in zip(places, hashes, strict=True):
                    found.places[name][place] = verdicts.get(key)
    for judged in (path for kind, path in files if kind == JUDGED and path not in found.judged.values()):
        raise InputError(f"{judged}: the turn errors it was made from are not given (by their manifests)")


def _input_sha256(path: Path) -> str | None:
    manifest = read_manifest(path) or {}
    inputs = manifest.get("inputs") or {}
    sha256 = (inputs.get("input_file") or {}).get("sha256")
    return None if sha256 is None else str(sha256)


def _add_manifests(found: Sources, path: Path) -> None:
    """The manifest of a file and of what it was made from, as far as they can be found."""
    for _ in range(6):
        manifest = read_manifest(path)
        if manifest is None or str(manifest_path(path)) in found.manifests:
            return
        found.manifests[str(manifest_path(path))] = manifest
        before = ((manifest.get("inputs") or {}).get("input_file") or {}).get("path")
        near = [Path(before), path.with_name(Path(before).name)] if before else []
        known = [each for each in near if manifest_path(each).exists()]
        if not known:
            return
        path = known[0]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
