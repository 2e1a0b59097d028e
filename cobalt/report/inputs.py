"""What a report is made from: evaluated files, turn errors, a judge's verdicts, metrics, manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.evaluation.evaluate import summary_path
from cobalt.evaluation.evaluated_rows import named_paths
from cobalt.evaluation.origin import RUN_FILE, lineage
from cobalt.evaluation.verdicts import content_hash
from cobalt.files import file_sha256
from cobalt.manifest import manifest_path, read_manifest
from cobalt.prompts import JUDGE_FIELDS
from cobalt.rows import Row, read_rows

EVALUATED, ERRORS, JUDGED, METRICS = "evaluated", "turn errors", "judged", "metrics"
TRAINED = "cobalt"  # what files of a run call the trained model, whatever its recipe
_OF_A_RUN = {  # of a folder of `cobalt run`: what belongs into its report, in this order
    "evaluate/reference_eval.jsonl": "reference",
    "evaluate/cobalt_eval.jsonl": TRAINED,
    "evaluate/single_turn_training_eval.jsonl": "single_turn_training",
    "controls/control_blank_eval.jsonl": "control_blank",
    "controls/control_other_eval.jsonl": "control_other",
    "train/metrics.jsonl": TRAINED,
    "train_single/metrics.jsonl": "single_turn_training",
}


@dataclass
class Inputs:
    """Everything found, by name. Summaries are by the name of the evaluation they were made from.

    `places`: (id, sample, turn) of turn errors with the judge's verdict (None: not judged), by evaluation.
    """

    evaluated: dict[str, Path] = field(default_factory=dict)
    metrics: dict[str, Path] = field(default_factory=dict)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    error_summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    judge_summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, dict[tuple[str | int, int, int], str | None]] = field(default_factory=dict)


def find(arguments: Sequence[str]) -> Inputs:
    """Look at files and folders (`PATH` or `NAME=PATH`) and sort them by what their rows are.

    A folder is that of a run (`cobalt run`: its evaluations, controls and trainings); a file tells by
    its first row what it is. Raises InputError for a file or folder that is none of these, turn errors or
    verdicts made from a file that is not among the evaluated ones, and if there is no evaluated file at all.
    """
    found = Inputs()
    errors: list[Path] = []
    judged: list[Path] = []
    for name, path in _expanded(arguments, found):
        kind = _kind(path)
        if kind == EVALUATED:
            _put(found.evaluated, name, path)
        elif kind == METRICS:
            _put(found.metrics, name if name != "metrics" else path.absolute().parent.name, path)
        else:
            (errors if kind == ERRORS else judged).append(path)
    if not found.evaluated:
        raise InputError(
            f"no evaluated rows in {' '.join(map(str, arguments))}: run eval_multi_turn.py first, and name "
            "its output or the folder of a run"
        )
    _attach(found, errors, judged)
    for path in (*found.evaluated.values(), *errors, *judged, *found.metrics.values()):
        _add_manifests(found, path)
    return found


def _expanded(arguments: Sequence[str], found: Inputs) -> Iterator[tuple[str, Path]]:
    """The name and path of every file."""
    files = [argument for argument in arguments if not Path(argument.rpartition("=")[2]).is_dir()]
    named = dict(zip(files, named_paths(files), strict=True))
    several = len(arguments) - len(files) > 1  # the names within folders of runs are the same
    for argument in arguments:
        if argument in named:
            yield named[argument]
            continue
        label, equals, text = argument.rpartition("=")
        folder = Path(text)
        prefix = f"{label if equals else folder.absolute().name}/" if equals or several else ""
        if not (folder / RUN_FILE).exists():
            raise InputError(f"{folder} is no folder of a run (it has no run.json): name the files in it")
        yield from ((prefix + name, path) for name, path in _of_run(folder, found))


def _of_run(folder: Path, found: Inputs) -> Iterator[tuple[str, Path]]:
    run = _json(folder / RUN_FILE)
    config = (run.get("identity") or {}).get("config") or {}
    trained = Path((config.get("train") or {}).get("recipe", TRAINED)).stem
    for inner, name in _OF_A_RUN.items():
        if (folder / inner).exists():
            yield trained if name == TRAINED else name, folder / inner
    for path in sorted(folder.glob("*/*.manifest.json")):
        _add_manifests(found, path.with_name(path.name.removesuffix(".manifest.json")))
    found.manifests[str(folder / RUN_FILE)] = run


def _kind(path: Path) -> str:
    """What the rows of a file are, by the first."""
    first: Row = next((row for _, row in read_rows(path)), {})
    if "all_pass_rates" in first:
        return EVALUATED
    if set(JUDGE_FIELDS) <= set(first):
        return JUDGED if "classification" in first else ERRORS
    if "step" in first:
        return METRICS
    if not first and "places" in _json(summary_path(path)):
        return ERRORS  # no turn accepted a wrong test
    what = f"its first row has the fields {', '.join(list(first)[:6])}" if first else "it has no rows"
    raise InputError(
        f"{path}: {what}; a report needs rows of eval_multi_turn.py, extract_turn_level_errors.py or "
        "run_llm_judge.py, or training metrics"
    )


def _put(table: dict[str, Path], name: str, path: Path) -> None:
    if name in table:
        raise InputError(f"{path} and {table[name]} are both named {name!r}; name them as NAME=PATH")
    table[name] = path


def _attach(found: Inputs, errors: Sequence[Path], judged: Sequence[Path]) -> None:
    """Give turn errors to the evaluation they were made from, and verdicts to those turn errors."""
    if not errors and not judged:
        return
    made_from = {file_sha256(path): name for name, path in found.evaluated.items()}
    owners: dict[str, Path] = {}
    verdicts_on: dict[str, list[Path]] = {}  # several where models made the same turn errors, in their order
    for path in judged:
        verdicts_on.setdefault(_input_sha256(path) or str(path), []).append(path)
    for path in errors:
        summary = _json(summary_path(path))
        name = made_from.get(_input_sha256(path) or "")
        if not name or not summary:
            raise InputError(
                f"{path}: not made from one of the evaluated files given (by its manifest), or its "
                "summary.json is gone; run extract_turn_level_errors.py again"
            )
        _put(owners, name, path)
        found.error_summaries[name] = summary
        verdicts: dict[str, str | None] = {}
        if given := verdicts_on.get(file_sha256(path)):
            mine = given.pop(0)
            found.judge_summaries[name] = _json(summary_path(mine))
            verdicts = {content_hash(row): row.get("verdict") for _, row in read_rows(mine)}
        hashes = [content_hash(row) for _, row in read_rows(path)]
        found.places[name] = {
            (place[0], place[1], place[2]): verdicts.get(key)
            for place, key in zip(summary["places"], hashes, strict=True)
        }
    for path in (each for left in verdicts_on.values() for each in left):
        raise InputError(
            f"{path}: the turn errors it was made from are not given (by their manifests), or have others"
        )


def _input_sha256(path: Path) -> str | None:
    inputs = (read_manifest(path) or {}).get("inputs") or {}
    found: str | None = (inputs.get("input_file") or {}).get("sha256")
    return found


def _add_manifests(found: Inputs, path: Path) -> None:
    """The manifest of a file and of what it was made from."""
    for each, manifest in lineage(path):
        found.manifests.setdefault(str(manifest_path(each)), manifest)


def _json(path: Path) -> dict[str, Any]:
    """The object in a file, empty where there is no file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object")
    return value
