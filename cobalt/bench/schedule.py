"""What the bench has to do, two trainings at a time, and how long it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

from cobalt.bench.trial import DEV, Request
from cobalt.config.config import Config
from cobalt.config.load import parse
from cobalt.files import atomic_write
from cobalt.training.config import is_own

TRIAL = ("-m", "cobalt.bench.trial")
ANCHOR = "cobalt"
# Minutes on two cores with two trainings at a time, until this bench has figures of its own: start-up and
# evaluation of a training, its steps, and what of both a training for the choice of a rate has.
_TRAINING_MINUTES, _CHOICE_MINUTES = 4.5, 2.0
_QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Plan:
    """What is compared: `steps` of the configuration's own batch are the samples of every training, a share
    `choice` of them is enough to choose a rate; `seconds` None: what the anchor spends.
    """

    out: Path
    methods: tuple[str, ...]
    config: Path
    seeds: int = 5
    steps: int = 30
    choice: float = 1 / 3
    rates: tuple[float, ...] = (1e-4, 4e-4)
    seconds: float | None = None
    dialogues: int = 1
    settings: tuple[str, ...] = ()
    timed: bool = True  # whether they are compared at equal seconds, too

    @property
    def anchor(self) -> str:
        """The method whose CPU seconds, at seed 0, are everybody's."""
        return ANCHOR if ANCHOR in self.methods else self.methods[0]

    def request(self, method: str, rate: float, seed: int, seconds: float | None, choice: bool) -> Request:
        """A training of this plan."""
        given = _parsed(self.config, self.settings)
        samples = self.steps * given.train.contexts * given.train.completions
        name, word = name_of(method), "rates" if choice else "trainings"
        file = f"{name}-lr{rate:g}" if choice else f"{name}-seed{seed}"
        return Request(
            method, rate, seed, max(1, round(samples * self.choice)) if choice else samples,
            None if choice else seconds, self.timed and not choice and method == self.anchor and seed == 0,
            str(self.config.resolve()), self.settings,
            (DEV,) if choice else tuple(each.name for each in given.evaluate.sets), self.dialogues,
            str(self.out / "work" / f"{name}-lr{rate:g}-seed{seed}"), str(self.out / "shared"),
            str(self.out / word / f"{file}.json"),
        )  # fmt: skip


@lru_cache
def _parsed(config: Path, settings: tuple[str, ...]) -> Config:
    return parse(config, settings)


def name_of(method: str) -> str:
    """What tables and files call a method: its name, or that of its file."""
    return re.sub(r"[^\w.-]+", "-", Path(method).stem) if is_own(method) else method


def last_turn(result: dict[str, Any], at: str, name: str) -> float:
    """Pass@1 at the last turn of a result."""
    return float(mean(turns[-1] for turns in result["at"][at]["tasks"][name].values()))


@dataclass
class Bench:
    """The work of a plan; `say` gets its lines, `trial` is the command of a training, before its request."""

    plan: Plan
    jobs: int = 2
    max_hours: float | None = None
    say: Callable[[str], None] = print
    trial: Sequence[str] = TRIAL
    failed: dict[str, str] = field(default_factory=dict)
    _minutes: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)

    def result(self, request: Request) -> dict[str, Any] | None:
        """The result of a request, if it is there and still what is asked for."""
        try:
            found: dict[str, Any] = json.loads(Path(request.result).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        asked = _plain(request)
        if "error" in found or any(found.get(name) != asked[name] for name in _SAME):
            return None
        if name_of(found["method"]) != name_of(request.method):
            return None
        if request.result not in self._known:
            with request.job() as job:
                self._known[request.result] = {"basis": request.basis(job)}
        return found if found["basis"] == self._known[request.result]["basis"] else None

    def choices(self, method: str) -> list[Request]:
        """The trainings that choose a method's rate; none where there is one rate only."""
        rates = self.plan.rates if len(self.plan.rates) > 1 else ()
        return [self.plan.request(method, rate, 0, None, True) for rate in rates]

    def rate(self, method: str) -> float | None:
        """The rate with the best Pass@1 at the last turn on development tasks; of equals the first. None
        while a training that chooses it is missing (one that failed is no candidate).
        """
        if len(self.plan.rates) == 1:
            return self.plan.rates[0]
        asked = [each for each in self.choices(method) if each.result not in self.failed]
        found = [(each.rate, self.result(each)) for each in asked]
        if not found or any(result is None for _, result in found):
            return None
        return max(found, key=lambda each: last_turn(each[1] or {}, "samples", DEV))[0]

    def seconds(self) -> float | None:
        """The budget; None while it is not known."""
        if self.plan.seconds is not None or not self.plan.timed:
            return self.plan.seconds
        rate = self.rate(self.plan.anchor)
        if rate is None:
            return None
        found = self.result(self.plan.request(self.plan.anchor, rate, 0, None, False))
        return float(found["at"]["samples"]["cpu_s"]) if found else None

    def trainings(self) -> Iterator[tuple[str, int, Request | None]]:
        """Every training of the plan, the anchor's first; no request while it cannot begin."""
        anchor, budget = self.plan.anchor, self.seconds()
        order = sorted(self.plan.methods, key=lambda method: method != anchor)
        rates = {method: self.rate(method) for method in order}
        for seed in range(self.plan.seeds):
            for method in order:
                rate, first = rates[method], method == anchor and seed == 0
                waits = self.plan.timed and budget is None and not first
                if rate is None or (waits and not self._lost(anchor, 0)):
                    yield method, seed, None
                else:
                    own = self.plan.seconds if first else budget
                    yield method, seed, self.plan.request(method, rate, seed, own, False)

    def _lost(self, method: str, seed: int) -> bool:
        """Whether there will be no such training: it failed, or all that would choose its rate."""
        choices = self.choices(method)
        of_seed = self.plan.request(method, self.plan.rates[0], seed, None, False).result
        return of_seed in self.failed or (
            bool(choices) and all(each.result in self.failed for each in choices)
        )

    def left(self) -> tuple[list[Request], int, int]:
        """What can begin now, and how many trainings and choices of rates are still to be made."""
        asked = [each for method in self.plan.methods for each in self.choices(method)]
        # rate by rate: trainings of one method would wait for the same data
        asked.sort(key=lambda each: (self.plan.rates.index(each.rate), each.method != self.plan.anchor))
        choices = [each for each in asked if each.result not in self.failed and self.result(each) is None]
        now, count = [], 0
        for method, seed, request in self.trainings():
            if request is None:
                count += not self._lost(method, seed)
            elif request.result not in self.failed and self.result(request) is None:
                now.append(request)
                count += 1
        first = [each for each in now if each.anchor]  # others wait for what it spends
        return [*first, *choices, *(each for each in now if not each.anchor)], count, len(choices)

    def hours(self) -> float:
        """Expected hours of what is left, from this bench's own trainings as soon as there are any."""
        _, trainings, choices = self.left()
        one = mean(self._minutes[False] or self._earlier("trainings") or [_TRAINING_MINUTES])
        other = mean(self._minutes[True] or self._earlier("rates") or [_CHOICE_MINUTES])
        return (trainings * one + choices * other) / 60 / self.jobs

    def _earlier(self, word: str) -> list[float]:
        files = (self.plan.out / word).glob("*.json")
        return [found["minutes"] for path in files if "minutes" in (found := json.loads(path.read_text()))]

    def run(self) -> bool:
        """Do what is left; whether all of it was done. Interrupted it ends the trainings under way, which go
        on from their checkpoints the next time.
        """
        began, at_work = time.monotonic(), dict[str, tuple[Request, subprocess.Popen[bytes], float]]()
        try:
            while True:
                late = self.max_hours is not None and time.monotonic() - began >= 3600 * self.max_hours
                busy = {request.work for request, *_ in at_work.values()}
                ready = [] if late else [each for each in self.left()[0] if each.result not in at_work]
                for request in ready:
                    if len(at_work) < self.jobs and request.work not in busy:
                        at_work[request.result] = request, self._start(request), time.monotonic()
                        busy.add(request.work)
                if not at_work:
                    return not self.left()[1] and not self.failed
                self._wait(at_work)
        finally:
            for _, process, _ in at_work.values():
                process.terminate()
            for _, process, _ in at_work.values():
                process.wait()

    def _start(self, request: Request) -> subprocess.Popen[bytes]:
        work = Path(request.work)
        work.mkdir(parents=True, exist_ok=True)
        atomic_write(asked := Path(f"{work}.request.json"), json.dumps(asdict(request)) + "\n")
        with open(work / "log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, *self.trial, str(asked)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **_QUIET},
            )  # fmt: skip

    def _wait(self, at_work: dict[str, tuple[Request, subprocess.Popen[bytes], float]]) -> None:
        """Wait until a training ends, and say how it did."""
        while not (ended := [name for name, (_, each, _) in at_work.items() if each.poll() is not None]):
            time.sleep(0.2)
        for name in ended:
            request, process, since = at_work.pop(name)
            minutes = (time.monotonic() - since) / 60
            found, choice = self.result(request), request.choice
            what = f"{name_of(request.method)}: "
            what += f"rate {request.rate:g}" if choice else f"seed {request.seed}"
            if process.returncode or found is None:
                why = _last_line(Path(request.work) / "log")
                self.failed[name] = f"{what}: {why}"
                record = {**_plain(request), "error": why, "log": str(Path(request.work) / "log")}
                atomic_write(request.result, json.dumps(record, indent=1) + "\n")
                self.say(f"{what} FAILED: {why}")
                continue
            self._minutes[choice].append(minutes)
            at = found["at"]["samples"]
            pass_1 = last_turn(found, "samples", request.sets[0])
            self.say(
                f"{what}: {100 * pass_1:.1f} % at the last turn ({request.sets[0]}), {at['step']} steps, "
                f"{at['programs']:,} programs, {at['cpu_s']:.0f} CPU s; {minutes:.1f} min; "
                f"about {self.hours():.1f} h left"
            )


# What a result must have in common with what is asked for; what decides the training is in its basis.
_SAME = ("rate", "seed", "samples", "seconds", "anchor", "sets", "dialogues")


def _plain(request: Request) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(request)))
    return plain


def _last_line(log: Path) -> str:
    """The error that a training ended with, as one line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or ["it said nothing"]
    errors = [line for line in lines if re.match(r"error: |\w*(Error|Exception)\b", line)]
    return (errors or lines)[-1].removeprefix("error: ")[:500]
