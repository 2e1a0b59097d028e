"""What papers report, as far as it is known here (their abstracts), and the table with ours beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.evaluation.format import points, rate
from cobalt.report.tables import Run, Table, of_papers

UNKNOWN = "not given in the abstract"
# Abstract of arXiv 2602.03806: Cobalt's largest gain in Pass@1 on LiveCodeBench, in points, by configuration.
GAINS = {"r1-distill-llama-8b": 9.0, "qwen3-8b": 6.2}
# Abstract of arXiv 2605.28409, the other paper of which there are configurations.
OFFLINE = f"most gain on small models and hard problems; figures are {UNKNOWN}"
# Settings that do not make another training, or an arm that has a name of its own.
_ELSEWHERE = ("train.recipe=", "perturb=", "hack_analysis.", "controls.", "execution.")
ABOUT_PUBLISHED = (
    "Published: from the abstract of arXiv 2602.03806 (of 2605.28409 for offline RL), which does not say at "
    "which turn, or against which score, its gains are the largest."
)


def published(
    config: str | None, tasks: str | None, recipe: str | None, changed: Sequence[str] = ()
) -> str | None:
    """What is known of the paper's result for a recipe trained by a configuration, on a set of tasks.

    `changed`: settings that were given beside the file. UNKNOWN for what the paper's abstract does not say;
    None for an untrained model and for a configuration that is none of the paper's.
    """
    if config is None or recipe is None:
        return None
    if config.startswith("offline-codenet"):
        return OFFLINE
    gain = GAINS.get(config.removesuffix("-released"))
    if gain is None:
        return None
    if tasks != "livecodebench":
        return UNKNOWN
    said = of_papers().get(recipe, {}).get("published")
    if said == "gain" and all(setting.startswith(_ELSEWHERE) for setting in changed):
        return f"up to {gain:+.1f} points"
    return f"below Cobalt, the figure is {UNKNOWN}" if said == "below" else UNKNOWN


def overview(runs: Sequence[Run], comparison: Mapping[str, Any] | None) -> Table:
    """What is compared: model, recipe and tasks of each run, what was measured at the last turn, and what is
    published. Columns that nothing is known for are left out.
    """
    rows = (comparison or {}).get("comparisons", ())
    last = {(row["a"], row["b"]): row for row in sorted(rows, key=lambda row: row["turn"])}
    columns: dict[str, list[str | None]] = {
        "run": [run["name"] for run in runs],
        "model": [run.get("model") for run in runs],
        "recipe": [run.get("recipe") for run in runs],
        "tasks": [run.get("data") for run in runs],
        "Pass@1, % [95 %]": [
            rate(run["summary"]["pass_at_1"][-1], run["summary"]["ci95"][-1]) for run in runs
        ],
        f"over {runs[0]['name']}": [
            points(pair) if (pair := last.get((runs[0]["name"], run["name"]))) else None for run in runs
        ],
        "published": [run.get("published") for run in runs],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    cells = [[cell or "-" for cell in row] for row in zip(*kept.values(), strict=True)]
    notes = ABOUT_PUBLISHED if "published" in kept else ""
    return Table("overview", "What is compared, at the last turn", list(kept), cells, notes)
