"""What became of trajectories that were made into contexts, in figures and words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cobalt.contexts.slice import PUBLISHED_TURNS, STOPS
from cobalt.testcases import NUM_PUBLIC

_ASSUMED = {
    "public": f"no 'public_test_cases': {NUM_PUBLIC} public tests assumed",
    "singles": "no 'exec_results': a task is skipped if every first program passes all tests",
}


@dataclass
class Summary:
    """What was built: `tasks` read, those `skipped` because the rule gives no context of them (the published
    one: every single-turn sample solved them), trajectories that the published rule could have kept
    (`candidates`), that were (`kept`, of `tasks_with_trajectories`) or had a program without a verdict
    (`unjudged`); `contexts` written and their number `by_depth` (programs shown), `stops` of the slicing
    (see `cobalt.contexts.slice`), tokens of the longest sliced prompt. `assumed` counts tasks by what had to
    be assumed about them. `own`: the rule is the user's.
    """

    own: bool = False
    tasks: int = 0
    skipped: int = 0
    candidates: int = 0
    kept: int = 0
    tasks_with_trajectories: int = 0
    contexts: int = 0
    unjudged: int = 0
    bad_rows: int = 0
    by_depth: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PUBLISHED_TURNS + 1), 0))
    stops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STOPS, 0))
    assumed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ASSUMED, 0))
    longest_prompt: int = 0

    def add(self, other: Summary) -> None:
        """Take the counts of another part of the input into account."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, dict):
                mine.update({key: mine.get(key, 0) + count for key, count in value.items()})
            elif name == "longest_prompt":
                self.longest_prompt = max(mine, value)
            else:
                setattr(self, name, mine + value)

    def counts(self) -> dict[str, Any]:
        """For the manifest."""
        return {name: value for name, value in vars(self).items() if name not in ("assumed", "own")}

    @property
    def warnings(self) -> list[str]:
        """What was assumed and what is missing, one sentence each."""
        found = [f"{n} tasks: {_ASSUMED[name]}" for name, n in self.assumed.items() if n]
        if self.own:
            if not self.contexts:
                found.append("the rule gives no context of any task")
        elif self.tasks and self.skipped == self.tasks:
            found.append("every task was skipped, being solved in one turn; harder tasks teach more")
        elif self.tasks and not self.candidates:
            found.append(
                "no trajectory was kept (pass rates must differ, and for training one program pass all), so "
                "no context shows feedback; more samples, more turns or easier tasks give some"
            )
        again = "left out: a program has no verdict (run the hidden-test stage again to retry)"
        return found + ([f"{self.unjudged} trajectories {again}"] if self.unjudged else [])

    def lines(self) -> list[str]:
        """The report for a terminal."""
        kept = f"{self.kept} kept of {self.tasks_with_trajectories} tasks"
        depths = ", ".join(f"{count} showing {programs}" for programs, count in self.by_depth.items())
        stops = ", ".join(f"{count} {name}" for name, count in self.stops.items())
        why = "the rule gives no context" if self.own else "every single-turn sample solves them"
        return [
            f"tasks: {self.tasks} read, {self.skipped} skipped ({why})",
            f"trajectories: {self.candidates} candidates, {kept}",
            f"contexts: {self.contexts} (by programs shown: {depths})",
            f"slicing stopped early: {stops}",
            f"longest sliced prompt: {self.longest_prompt} tokens",
        ]
