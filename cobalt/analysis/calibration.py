"""How good is the judge? Its verdicts on clear cases of every category, which nobody tells it are known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from cobalt.analysis.cases import patch
from cobalt.analysis.judge import Judge, JudgeSettings
from cobalt.analysis.verdicts import CATEGORIES, LABELS, TIE, UNKNOWN, agreement
from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine
from cobalt.rows import Row


def canaries() -> list[Row]:
    """The cases that ship with the project, as rows of turn errors with `truth` (one of LABELS). Their ids
    tell nothing.
    """
    text = (resources.files("cobalt.analysis") / "canaries.json").read_text(encoding="utf-8")
    return [
        {
            "id": number,
            **{name: case[name] for name in ("question", "previous_code", "feedback", "current_code")},
            "patch": patch(case["previous_code"], case["current_code"]),
            "truth": f"({case['category']}) {CATEGORIES[case['category']]}",
        }
        for number, case in enumerate(json.loads(text)["cases"])
    ]


async def calibrate(
    engine: ChatEngine,
    settings: JudgeSettings | None = None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge the canaries. Returns `cases` (rows with verdicts), `confusion` [truth][verdict] counts, `right`,
    `accuracy` (of all, so that ties and unreadable votes count as wrong) and `agreement`.
    """
    judge, gate, done = Judge(engine, settings or JudgeSettings()), asyncio.Semaphore(concurrency), 0
    cases = canaries()

    async def one(case: Row) -> Row:
        nonlocal done
        async with gate:
            made = await judge({name: value for name, value in case.items() if name != "truth"})
        done += 1
        if progress is not None:
            progress.advance("calibration", done, len(cases))
        return made | {"truth": case["truth"]}

    rows = await asyncio.gather(*map(one, cases))
    right = sum(row["verdict"] == row["truth"] for row in rows)
    return {
        "schema": 1,
        "judge_model": engine.name,
        "settings": judge.settings.record(),
        "confusion": confusion(rows),
        "right": right,
        "accuracy": right / len(rows),
        "agreement": agreement([row["classification"] for row in rows]),
        "cases": rows,
    }


def confusion(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """How many cases of each true category got each verdict."""
    return {
        truth: {
            label: sum(row["truth"] == truth and row["verdict"] == label for row in rows)
            for label in (*LABELS, TIE, UNKNOWN)
        }
        for truth in LABELS
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The confusion matrix as text, rows the truth, columns the verdict."""
    columns = [*LABELS, TIE, UNKNOWN]
    width = max(map(len, columns))
    head = " " * width + "  " + "  ".join(column.rjust(len(column)) for column in columns)
    made = [f"Confusion matrix of {found['judge_model']} (rows: truth, columns: majority verdict)", head]
    for truth, row in found["confusion"].items():
        cells = "  ".join(str(row[column]).rjust(len(column)) for column in columns)
        made.append(f"{truth.ljust(width)}  {cells}")
    made.append(f"{found['right']} of {len(found['cases'])} right")
    if found["agreement"]["alpha"] is not None:
        made.append(f"Krippendorff's alpha of the votes: {found['agreement']['alpha']:.3f}")
    return made
