"""How good is the judge? Its verdicts on clear cases of every category, which nobody tells it are known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from cobalt.cli import Progress
from cobalt.evaluation.swapped_pairs import patch
from cobalt.evaluation.verdicts import CATEGORIES, LABELS, TIE, UNKNOWN, agreement
from cobalt.rows import Row

_COLUMNS = (*LABELS, TIE, UNKNOWN)


def canaries() -> list[Row]:
    """The cases that ship with the project, as rows of turn errors with `truth` (one of LABELS). Their ids
    tell nothing.
    """
    text = (resources.files("cobalt.evaluation") / "canaries.json").read_text(encoding="utf-8")
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
    judge: Callable[[Row], Awaitable[Row]],
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Ask a judge (see `cobalt.evaluation.judge.Judge`) about the canaries. Returns `cases` (rows with
    verdicts), `confusion` [truth][verdict] counts, `right`, `accuracy` (of all, so that ties and unreadable
    votes count as wrong) and `agreement`.
    """
    cases, gate, done = canaries(), asyncio.Semaphore(concurrency), 0

    async def one(case: Row) -> Row:
        nonlocal done
        async with gate:
            made = await judge({name: value for name, value in case.items() if name != "truth"})
        done += 1
        if progress is not None:
            progress.advance("calibration", done, len(cases))
        return made | {"truth": case["truth"]}

    rows = await asyncio.gather(*map(one, cases))
    verdicts = [(row["truth"], row["verdict"]) for row in rows]
    right = sum(truth == verdict for truth, verdict in verdicts)
    return {
        "schema": 1,
        "judge_model": rows[0]["judge_model"],
        "confusion": {t: {label: verdicts.count((t, label)) for label in _COLUMNS} for t in LABELS},
        "right": right,
        "accuracy": right / len(rows),
        "agreement": agreement([row["classification"] for row in rows]),
        "cases": rows,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The confusion matrix as text, rows the truth, columns the verdict."""
    width = max(map(len, _COLUMNS))
    made = [
        f"Confusion matrix of {found['judge_model']} (rows: truth, columns: majority verdict)",
        " " * width + "  " + "  ".join(_COLUMNS),
    ]
    for truth, row in found["confusion"].items():
        cells = "  ".join(str(row[column]).rjust(len(column)) for column in _COLUMNS)
        made.append(f"{truth.ljust(width)}  {cells}")
    made.append(f"{found['right']} of {len(found['cases'])} right")
    if found["agreement"]["alpha"] is not None:
        made.append(f"Krippendorff's alpha of the votes: {found['agreement']['alpha']:.3f}")
    return made
