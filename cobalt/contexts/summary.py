"""What building contexts counted, and how it is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cobalt.contexts.slice import MAX_PROGRAMS, MAX_PROMPT_TOKENS, STOPS
from cobalt.contexts.trajectories import ASSUMED_PUBLIC
from cobalt.files import StrPath, replacing

BIN_TOKENS = 250


@dataclass
class Summary:
    """What was built.

    Attributes:
        tasks: rows read.
        skipped: tasks that every single-turn sample solved.
        candidates: trajectories that could have been kept.
        kept: trajectories that were.
        tasks_with_trajectories: tasks of which at least one was kept.
        contexts: rows written.
        by_depth: contexts by the number of programs shown.
        stops: kept trajectories by what ended their slices before the third (see `cobalt.contexts.slice`).
        unjudged: trajectories left out because a program has no verdict.
        longest_prompt: tokens of the longest sliced context.
        lengths: contexts by prompt length, in bins of `BIN_TOKENS` tokens (key: lower bound), by depth.
        assumed: tasks by what had to be assumed about them.
        bad_rows: rows left out because they cannot be used.
        warnings: assumptions that were made about the input.
        wall_s: seconds.
    """

    tasks: int = 0
    skipped: int = 0
    candidates: int = 0
    kept: int = 0
    tasks_with_trajectories: int = 0
    contexts: int = 0
    by_depth: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(MAX_PROGRAMS + 1), 0))
    stops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STOPS, 0))
    unjudged: int = 0
    longest_prompt: int = 0
    lengths: dict[int, dict[int, int]] = field(
        default_factory=lambda: {depth: {} for depth in range(MAX_PROGRAMS + 1)}
    )
    assumed: Counter[str] = field(default_factory=Counter)
    bad_rows: int = 0
    warnings: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def measured(self, depth: int, tokens: int) -> None:
        """Count a context that shows ``depth`` programs and has ``tokens`` prompt tokens."""
        self.contexts += 1
        self.by_depth[depth] = self.by_depth.get(depth, 0) + 1
        bins = self.lengths.setdefault(depth, {})
        lower = tokens // BIN_TOKENS * BIN_TOKENS
        bins[lower] = bins.get(lower, 0) + 1
        if depth:
            self.longest_prompt = max(self.longest_prompt, tokens)

    def add(self, other: Summary) -> None:
        """Take the counts of another part of the input into account."""
        for name in (
            "tasks",
            "skipped",
            "candidates",
            "kept",
            "tasks_with_trajectories",
            "contexts",
            "unjudged",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest_prompt = max(self.longest_prompt, other.longest_prompt)
        pairs: list[tuple[dict[Any, int], dict[Any, int]]] = [
            (self.by_depth, other.by_depth),
            (self.stops, other.stops),
            *((self.lengths.setdefault(depth, {}), bins) for depth, bins in other.lengths.items()),
        ]
        for mine, theirs in pairs:
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count
        self.assumed.update(other.assumed)

    def counts(self) -> dict[str, Any]:
        """For the manifest: all numbers but the seconds."""
        names = ("tasks", "skipped", "candidates", "kept", "tasks_with_trajectories", "contexts", "by_depth")
        found = {
            name: getattr(self, name) for name in (*names, "stops", "unjudged", "longest_prompt", "bad_rows")
        }
        lengths = {
            depth: {lower: bins[lower] for lower in sorted(bins)} for depth, bins in self.lengths.items()
        }
        return found | {"prompt_tokens": {"bin": BIN_TOKENS, "by_depth": lengths}}

    def finish(self) -> None:
        """Put the assumptions into words, one warning each."""
        texts = {
            "public": f"no 'public_test_cases': {ASSUMED_PUBLIC} public tests assumed",
            "singles": "no 'exec_results': a task is skipped if every first program passes all tests",
            "parts": "public and hidden tests do not add up to 'test_cases', so combined rates may be off",
        }
        self.warnings = [
            f"{self.assumed[name]} tasks: {text}" for name, text in texts.items() if self.assumed[name]
        ]
        if self.unjudged:
            self.warnings.append(
                f"{self.unjudged} trajectories left out: a program has no verdict "
                "(run the hidden-test stage again to retry)"
            )

    def lines(self) -> list[str]:
        """The report for a terminal."""
        depths = ", ".join(f"{count} showing {programs}" for programs, count in self.by_depth.items())
        stops = ", ".join(f"{count} {name}" for name, count in self.stops.items())
        return [
            f"tasks: {self.tasks} read, {self.skipped} skipped (every single-turn sample solves them)",
            f"trajectories: {self.candidates} candidates, {self.kept} kept "
            f"of {self.tasks_with_trajectories} tasks",
            f"contexts: {self.contexts} (by programs shown: {depths})",
            f"slicing stopped early: {stops}",
            f"longest sliced prompt: {self.longest_prompt} tokens",
        ]


def draw_lengths(summary: Summary, path: StrPath, limit: int = MAX_PROMPT_TOKENS) -> None:
    """A PNG histogram of prompt lengths, stacked by programs shown, with the limit of slices."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    bottom: Counter[int] = Counter()
    for depth, bins in summary.lengths.items():
        lowers = sorted(bins)
        axes.bar(
            lowers,
            [bins[lower] for lower in lowers],
            width=BIN_TOKENS,
            align="edge",
            bottom=[bottom[lower] for lower in lowers],
            label=f"{depth} programs shown" if depth != 1 else "1 program shown",
        )
        bottom.update(bins)
    axes.axvline(limit, color="black", linestyle="--", linewidth=1, label=f"limit of slices ({limit})")
    axes.set_xlabel("prompt tokens, generation header included")
    axes.set_ylabel("contexts")
    axes.legend(fontsize=8)
    with replacing(path) as handle:
        FigureCanvasAgg(figure).print_png(handle)
