"""What the paper reports beside what reports measured: `python -m cobalt.run.reported REPORT ...`.

Of the papers' figures only those of their abstracts are known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.report.build import DATA
from cobalt.report.words import interval, percent, points

UNKNOWN = "not given in the abstract"
# Abstract of arXiv 2602.03806: Cobalt's largest gain in Pass@1 on LiveCodeBench, in points, by configuration.
GAINS = {"r1-distill-llama-8b": 9.0, "qwen3-8b": 6.2}
# It says of these two that Cobalt outperforms them, and nothing more.
BEATEN = ("mt_grpo", "verpo")
# Abstract of arXiv 2605.28409, the other paper of which there is a script.
OFFLINE = f"most gain on small models and hard problems; figures are {UNKNOWN}"


def reported(report: str, arm: str) -> str:
    """What is known of the paper's result for an arm of the report of a name (`livecodebench_qwen3-8b`)."""
    if report.startswith("offline_rl_"):
        return OFFLINE
    model = report.rpartition("_")[2].removesuffix("-released")
    if not report.startswith("livecodebench_") or model not in GAINS:
        return UNKNOWN
    if arm == "cobalt":
        return f"up to {GAINS[model]:+.1f} points"
    return f"below Cobalt, the figure is {UNKNOWN}" if arm in BEATEN else UNKNOWN


def is_smoke(folder: Path) -> bool:
    """Whether one of the runs in a folder of `scripts/reproduce` was a smoke run."""
    return any(json.loads(path.read_text())["smoke"] for path in folder.glob("*/*/results.json"))


def beside(report: Path, *, smoke: bool) -> list[str]:
    """Lines on a report's folder: for each arm its gain at the last turn over the reference, or, where there
    is no reference, its Pass@1; on perturbed tests the share of bent programs too; and what is published.

    A smoke run is compared with nothing. Raises InputError for a folder without a report.
    """
    name = report.name.removeprefix("report_")
    if smoke:
        return [f"{name}: a smoke run, compared with nothing"]
    try:
        found = json.loads((report / DATA).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{report}: there is no report ({DATA}: {error.strerror})") from None
    return [f"{name}, last turn, 95 % intervals by task:", *_arms(name, found)]


def _arms(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    for run in found["runs"]:
        gain, bent = _gain(found["comparison"], run["name"]), run["errors"]
        said = []
        if gain is not None:
            said.append(f"{points(gain)} points over the reference")
        elif run["name"] != "reference":
            rate, ends = run["summary"]["pass_at_1"][-1], run["summary"]["ci95"][-1]
            said.append(f"Pass@1 {percent(rate)} % {interval(ends, 100)}")
        if bent is not None:
            shown = bent["all_turns"]
            said.append(f"{percent(shown['rate'])} % of programs bent {interval(shown['ci95'], 100)}")
        if said:
            yield f"- {run['name']}: {', '.join(said)}; published: {reported(name, run['name'])}"


def _gain(comparison: Mapping[str, Any] | None, arm: str) -> Mapping[str, Any] | None:
    rows = [] if comparison is None else comparison["comparisons"]
    pairs = [row for row in rows if (row["a"], row["b"]) == ("reference", arm)]
    last = max(pairs, key=lambda row: row["turn"], default=None)
    return None if last is None or last["points"] is None else last


def main(argv: Sequence[str] | None = None) -> int:
    """Print the lines of some reports; returns the exit code."""
    flags = parser("What the paper reports beside what reports of scripts/reproduce measured.")
    flags.add_argument("reports", nargs="+", type=Path, help="report_* folders")
    flags.add_argument("--smoke", action="store_true", help="they are of smoke runs")
    args = flags.parse_args(argv)
    for report in args.reports:
        print("\n".join(beside(report, smoke=args.smoke or is_smoke(report.parent))))
    return 0


if __name__ == "__main__":
    run_main(main)
