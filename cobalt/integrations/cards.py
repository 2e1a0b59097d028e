"""Cards of the Hugging Face hub for models and files of rows: data, method, figures with intervals, limits,
from the manifests that stand beside the files and from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yaml import YAMLError

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun
from cobalt.evaluation.format import rate, shown, too_few
from cobalt.evaluation.origin import REHEARSAL, lineage, origin, steps
from cobalt.evaluation.summary import summarize
from cobalt.files import file_sha256
from cobalt.hub import DATA_SUFFIXES
from cobalt.kinds import Kind, field_row, fields_of
from cobalt.tasks import livecodebench

REFERENCE = "reference"
TAGS = ["cobalt", "code"]
_UNTRUSTED = "Programs are untrusted: a model wrote them. Run them in a sandbox only."


@dataclass
class Part:
    """A file of rows: its split, number of rows, fields that occur, and its outcomes if it is evaluated."""

    split: str
    path: Path
    kind: Kind
    rows: int
    fields: dict[str, None]
    evaluated: EvaluatedRun | None

    @property
    def place(self) -> str:
        """Its name in the repository."""
        return self.split + next((end for end in DATA_SUFFIXES if self.path.name.endswith(end)), ".jsonl")

    @property
    def of_livecodebench(self) -> bool:
        """Whether the rows derive from LiveCodeBench, by their fields or manifests."""
        stages = {manifest.get("settings", {}).get("stage") for _, manifest in lineage(self.path)}
        return {"contest_id", "contest_date"} <= self.fields.keys() or livecodebench.STAGE in stages


def model_card(folder: Path, name: str, runs: Sequence[EvaluatedRun], licence: str | None) -> str:
    """The card in a model's folder, if there is one, with figures of its evaluations and limits added. A run
    of the name REFERENCE is of the model that the training began with.
    """
    from huggingface_hub import EvalResult, ModelCard

    file, given = folder / "README.md", f"---\n---\n# {name}\n\nNo card was beside it.\n"
    try:
        card = ModelCard(file.read_text("utf-8") if file.is_file() else given)
    except (ValueError, YAMLError) as error:
        raise InputError(f"{file}: no model card: {' '.join(str(error).split())}") from None
    head: Any = card.data
    found = [_of(run) for run in runs if run.name != REFERENCE]
    results = [
        EvalResult("text-generation", re.sub(r"\W+", "_", on), on, "pass@1", value, metric_name=f"turn {t}")
        for on, it in found for t, value in enumerate(it["pass_at_1"], 1) if value is not None
    ]  # fmt: skip
    head.eval_results = [*(head.eval_results or []), *results] or None
    head.model_name, head.license = name, licence or head.license
    head.pipeline_tag, head.tags = head.pipeline_tag or "text-generation", head.tags or TAGS
    if isinstance(head.base_model, str) and "/" not in head.base_model:
        head.base_model = None  # a folder's name: the hub takes names of its own only
    untold = ["No evaluation was given: nothing is said about tasks that it was not trained on."]
    limits = [_UNTRUSTED, *(_limits(runs) if runs else untold)]
    return _joined(head, card.text.strip(), {"Figures": _figures(runs), "Limits": _list(limits)})


def data_card(name: str, parts: Sequence[Part], licence: str | None) -> str:
    """The card of a data set, each of whose parts, files of one kind, is a split."""
    from huggingface_hub import DatasetCardData

    kind, files = parts[0].kind, [{"split": part.split, "path": part.place} for part in parts]
    head = DatasetCardData(
        license=licence, pretty_name=name, task_categories=["text-generation"], tags=TAGS,
        configs=[{"config_name": "default", "data_files": files}],
    )  # fmt: skip
    rows = [[f"`{each.place}`", f"{each.rows:,}", f"`{file_sha256(each.path)}`"] for each in parts]
    present = {name for part in parts for name in part.fields}
    known = [field_row(name, *about) for name, about in fields_of(kind.row).items() if name in present]
    data = [
        f"Rows are {kind.name}, made by {kind.made_by}.", _table(["file", "rows", "sha256"], rows),
        "J: JSON text, S samples, T turns.",
        _table(["field", "type, axes", "meaning"], []) + "\n".join(known),
    ]  # fmt: skip
    runs = [part.evaluated for part in parts if part.evaluated]
    limits = ["Statements and programs of others keep their own terms."]
    limits += ["No licence was named for it."] * (licence is None)
    limits += ["Some public tests are wrong on purpose."] * ("modified_test_cases" in present)
    if any(part.of_livecodebench for part in parts):
        limits.append("LiveCodeBench keeps its hidden tests out of training data: do not publish them.")
    if runs:
        limits += [_UNTRUSTED, *_limits(runs)]
    none = "- no manifest says how it was made"
    made = [f"`{part.place}`:\n\n" + ("\n".join(steps(part.path)) or none) for part in parts]
    sections = {"Data": "\n\n".join(data), "Method": "\n\n".join(made)}
    return _joined(head, f"# {name}", sections | {"Figures": _figures(runs), "Limits": _list(limits)})


def _joined(head: Any, body: str, sections: Mapping[str, str]) -> str:
    parts = [body, *(f"## {title}\n\n{text.strip()}" for title, text in sections.items() if text)]
    return f"---\n{head.to_yaml()}\n---\n" + "\n\n".join(parts) + "\n"


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: list[str], rows: Sequence[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def _of(run: EvaluatedRun) -> tuple[str, dict[str, Any]]:
    """What was evaluated, in words, and the statistics."""
    return origin(run.path).data or run.path.name, summarize(list(run.outcomes.values()))


def _figures(runs: Sequence[EvaluatedRun]) -> str:
    """Pass@1 by turn as a table in percent; empty without a run."""
    turns, rows = max((run.turns for run in runs), default=0), list[list[str]]()
    for run in runs:
        data, it = _of(run)
        cells = [*map(rate, it["pass_at_1"], shown(it)), *[""] * (turns - run.turns)]
        rows.append([run.name, data, f"{it['tasks']} x {run.samples}", *cells])
    head = ["", "tasks", "tasks x samples", *(f"turn {turn + 1}" for turn in range(turns))]
    said = "Pass@1 on hidden tests in percent, with 95 % intervals (by task or by group, the wider):\n\n"
    return said + _table(head, rows) if rows else ""


def _limits(runs: Sequence[EvaluatedRun]) -> list[str]:
    said = ["Right means that a program passed every hidden test; tests may be too weak to tell.",
            "Intervals are over tasks: another training may differ by more."] * bool(runs)  # fmt: skip
    for run in runs:
        said += [f"{run.name} is of {REHEARSAL}."] * origin(run.path).smoke
        said += [f"{run.name}: {each}" for each in too_few(len(run.outcomes), run.groups)]
        lost = f"{run.name}: {run.infra_errors} programs have no verdict and are left out."
        said += [lost] * (run.infra_errors > 0)
    return said
