"""What a training has spent: CPU seconds of its processes, programs sampled, and the step it had reached."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from cobalt.files import atomic_write

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def adopt() -> None:
    """From now on whatever loses its parent below this process becomes its child, so that nothing that was
    started here leaves what `cpu_seconds` counts.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def cpu_seconds(root: int | None = None) -> float:
    """User and system seconds of a process (default: this one) and of all below it, living and ended.

    Of the kernel's own accounts (proc(5): utime, stime, and cutime, cstime of children that were waited for).
    After `adopt` nothing is missing but children of a process that ignores SIGCHLD.
    """
    times, below = dict[int, int](), defaultdict[int, list[int]](list)
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it has ended since
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
            times[int(entry.name)] = sum(map(int, fields[11:15]))
            below[int(fields[1])].append(int(entry.name))
    total, left = 0, [root or os.getpid()]
    while left:
        each = left.pop()
        total += times.get(each, 0)
        left += below[each]
    return total / _TICKS


class Spent(NamedTuple):
    """Up to the end of `step`: programs sampled, CPU seconds, wall seconds. Start-ups are not in them."""

    step: int
    programs: int
    cpu_s: float
    wall_s: float


class Ledger:
    """The steps of a training as they end, in a file of one JSON object a line: step, `launch`, `programs`
    of the step, and where the clocks stood (`cpu_s` of the launch, `wall_s` of the step).
    """

    def __init__(self, path: Path, rows: int, done: int) -> None:
        """`rows`: completions (dialogues) of a step. `done`: steps in the checkpoint that is gone on from;
        later ones are forgotten, for they are made again.
        """
        self.path, self.rows = path, rows
        self.lines = [line for line in _lines(path) if line["step"] <= done]
        atomic_write(path, "".join(json.dumps(line) + "\n" for line in self.lines))
        self.launch = 1 + max((line["launch"] for line in self.lines), default=0)
        self._reading, self._seen = Path(), 0

    def look(self, metrics: Path, clock: Callable[[], float] = cpu_seconds) -> bool:
        """Write down the steps that a launch's logger has written since; whether there were any. `clock` is
        read only then: it reads all of /proc.
        """
        if metrics != self._reading:  # another launch: it had lost its port
            self.launch += self._seen > 0
            self._reading, self._seen = metrics, 0
        fresh = _lines(metrics)[self._seen :]
        self._seen += len(fresh)
        cpu_s = clock() if fresh else 0.0
        for step, data in ((each["step"], each["data"]) for each in fresh):
            if "timing_s/step" not in data:
                continue
            line = {
                "step": step, "launch": self.launch, "programs": programs(data, self.rows),
                "cpu_s": round(cpu_s, 2), "wall_s": round(float(data.get("timing_s/step") or 0.0), 3),
            }  # fmt: skip
            self.lines.append(line)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return bool(fresh)

    def spent(self, before: Spent) -> list[Spent]:
        """The account after every step, step 0 (`before`: what making its data took) first."""
        return account(self.lines, before)


def programs(metrics: Mapping[str, Any], rows: int) -> int:
    """Programs that a step sampled: what it says itself (`rollout/programs`), else `rows` completions, of as
    many programs as its dialogues had on average (verl counts two messages a turn).
    """
    said = metrics.get("rollout/programs")
    return round(said if said is not None else rows * float(metrics.get("num_turns/mean") or 2.0) / 2)


def account(lines: Sequence[Mapping[str, Any]], before: Spent) -> list[Spent]:
    """What was spent up to the end of each step.

    A step costs what passed since the step before it in the same launch. The first of a launch, in which
    start-up is hidden, and steps that a kill left no line of, are set to the mean of the others.
    """
    steps = {line["step"]: line for line in lines}
    cost = {
        line["step"]: line["cpu_s"] - earlier["cpu_s"]
        for earlier, line in pairwise(lines)
        if earlier["launch"] == line["launch"] and line["step"] == earlier["step"] + 1
    }
    usual = mean(cost.values()) if cost else 0.0
    usual_wall = mean(steps[step]["wall_s"] for step in cost) if cost else 0.0
    usual_made = mean(line["programs"] for line in lines) if lines else 0.0
    found = [before]
    for step in range(1, max(steps, default=0) + 1):
        _, made, cpu_s, wall_s = found[-1]
        made += steps[step]["programs"] if step in steps else round(usual_made)
        wall_s += steps[step]["wall_s"] if step in cost else usual_wall
        found.append(Spent(step, made, cpu_s + cost.get(step, usual), wall_s))
    return found


def reached(spent: Iterable[Spent], saved: Iterable[int], **limit: float) -> Spent:
    """The last saved step within a limit, `programs=` or `cpu_s=`; step 0 is always there."""
    ((name, most),) = limit.items()
    there = {0, *saved}
    first, *others = [each for each in spent if each.step in there]
    return max([first, *(each for each in others if getattr(each, name) <= most)], key=lambda each: each.step)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines, without a line that is torn."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found
