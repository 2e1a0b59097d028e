"""What building contexts counted, and how it is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cobalt.contexts.slice import MAX_PROMPT_TOKENS, PUBLISHED_TURNS, STOPS
from cobalt.files import StrPath, replacing
from cobalt.testcases import NUM_PUBLIC

BIN_TOKENS = 250
_SUMS = ("tasks", "skipped", "candidates", "kept", "tasks_with_trajectories", "contexts", "unjudged")
_ASSUMED = {
    "public": f"no 'public_test_cases': {NUM_PUBLIC} public tests assumed",
    "singles": "no 'exec_results': a task is skipped if every first program passes all tests",
    "parts": "public and hidden tests do not add up to 'test_cases', so combined rates may be off",
}


def _by_depth(value: Any) -> dict[int, Any]:
    return {depth: value() for depth in range(PUBLISHED_TURNS + 1)}


@dataclass
class Summary:
    """What was built: `tasks` read, those `skipped` because every single-turn sample solved them,
    trajectories that could have been kept (`candidates`), that were (`kept`, of `tasks_with_trajectories`) or
    had a program without a verdict (`unjudged`); `contexts` written and their number `by_depth` (programs
    shown), `stops` of the slicing (see `cobalt.contexts.slice`), tokens of the longest sliced prompt, and
    `lengths`: contexts by depth and prompt length in bins of `BIN_TOKENS` (key: lower bound). `assumed`
    counts tasks by what had to be assumed about them.
    """

    tasks: int = 0
    skipped: int = 0
    candidates: int = 0
    kept: int = 0
    tasks_with_trajectories: int = 0
    contexts: int = 0
    by_depth: dict[int, int] = field(default_factory=lambda: _by_depth(int))
    stops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STOPS, 0))
    unjudged: int = 0
    longest_prompt: int = 0
    lengths: dict[int, dict[int, int]] = field(default_factory=lambda: _by_depth(dict))
    assumed: Counter[str] = field(default_factory=Counter)
    bad_rows: int = 0
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
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest_prompt = max(self.longest_prompt, other.longest_prompt)
        self.assumed.update(other.assumed)
        pairs: list[tuple[dict[Any, int], dict[Any, int]]] = [
            (self.by_depth, other.by_depth),
            (self.stops, other.stops),
            *((self.lengths.setdefault(depth, {}), bins) for depth, bins in other.lengths.items()),
        ]
        for mine, theirs in pairs:
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count

    def counts(self) -> dict[str, Any]:
        """For the manifest: all numbers but the seconds."""
        names = (*_SUMS, "by_depth", "stops", "longest_prompt", "bad_rows")
        lengths = {depth: dict(sorted(bins.items())) for depth, bins in self.lengths.items()}
        return {name: getattr(self, name) for name in names} | {
            "prompt_tokens": {"bin": BIN_TOKENS, "by_depth": lengths}
        }

    @property
    def warnings(self) -> list[str]:
        """What was assumed and what is missing, one sentence each."""
        found = [
            f"{self.assumed[name]} tasks: {text}" for name, text in _ASSUMED.items() if self.assumed[name]
        ]
        if self.unjudged:
            found.append(
                f"{self.unjudged} trajectories left out: a program has no verdict "
                "(run the hidden-test stage again to retry)"
            )
        return found

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
    lowers = sorted({lower for bins in summary.lengths.values() for lower in bins})
    bottom = dict.fromkeys(lowers, 0)
    for depth, bins in summary.lengths.items():
        heights = [bins.get(lower, 0) for lower in lowers]
        label = f"{depth} program{'s' * (depth != 1)} shown"
        axes.bar(lowers, heights, BIN_TOKENS, list(bottom.values()), align="edge", label=label)
        bottom = {lower: bottom[lower] + bins.get(lower, 0) for lower in lowers}
    axes.axvline(limit, color="black", linestyle="--", linewidth=1, label=f"limit of slices ({limit})")
    axes.set_xlabel("prompt tokens, generation header included")
    axes.set_ylabel("contexts")
    axes.legend(fontsize=8)
    with replacing(path) as handle:
        FigureCanvasAgg(figure).print_png(handle)
