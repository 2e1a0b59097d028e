"""How much of the rewards' time generation hides: the real scorer in simulated time, with a stub rollout.

Every sample is scored, by the scorer that trains, at the simulated moment of its last token. The stub
evaluator runs the tests of a program one after another on one of its cores, as the real one does. What is
left between the last token and the last verdict is *exposed*: the step waits for nothing else.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cobalt.rewards.cobalt import PUBLISHED
from cobalt.sandbox.policy import Limits
from cobalt.schema import ExecutionResult
from cobalt.training.scoring import Scorer

TEST_LIMIT_S, SUITE_LIMIT_S = Limits.cpu_s, Limits.suite_s
_PROGRAM = "work it out\n</think>\n```python\nprint({})\n```"


@dataclass(frozen=True)
class Load:
    """One step's rewards. Times in seconds unless named otherwise.

    ``contexts`` x ``samples`` programs of ``tests`` each. CPU per test: lognormal with median ``test_ms`` and
    deviation ``test_sigma`` of its logarithm, and the limit of 4 s with chance ``slow_share``. Response
    lengths: lognormal with median ``median_tokens`` and ``length_sigma``, cut at ``max_tokens``; of cut
    responses a share ``cut_with_code`` has a program all the same, and these come all at once, at the end.
    Every sequence decodes at ``tokens_per_s``.
    """

    contexts: int = 128
    samples: int = 16
    tests: int = 20
    test_ms: float = 30.0
    test_sigma: float = 0.5
    slow_share: float = 0.02
    median_tokens: float = 2500.0
    length_sigma: float = 0.6
    max_tokens: int = 6144
    cut_with_code: float = 0.0
    tokens_per_s: float = 20.0

    @property
    def programs(self) -> int:
        """Completions per step."""
        return self.contexts * self.samples

    @property
    def mean_test_s(self) -> float:
        """Expected CPU seconds of a test."""
        usual = self.test_ms / 1000 * math.exp(self.test_sigma**2 / 2)
        return (1 - self.slow_share) * min(usual, TEST_LIMIT_S) + self.slow_share * TEST_LIMIT_S

    def draws(self, seed: int) -> list[tuple[float, list[float] | None]]:
        """(second at which a completion ends, CPU seconds of its tests or None without a program) of each."""
        draw = random.Random(seed)
        made: list[tuple[float, list[float] | None]] = []
        for _ in range(self.programs):
            length = draw.lognormvariate(math.log(self.median_tokens), self.length_sigma)
            cut = length >= self.max_tokens and draw.random() >= self.cut_with_code
            times = [self._test(draw) for _ in range(self.tests)]
            made.append((min(length, self.max_tokens) / self.tokens_per_s, None if cut else times))
        return made

    def _test(self, draw: random.Random) -> float:
        if draw.random() < self.slow_share:
            return TEST_LIMIT_S
        return min(TEST_LIMIT_S, draw.lognormvariate(math.log(self.test_ms / 1000), self.test_sigma))


@dataclass(frozen=True)
class Exposure:
    """``generation_s`` first to last token, ``exposed_s`` last token to last verdict, ``cpu_s`` of all tests
    run, ``busy`` share of the cores' time until the last verdict, in [0, 1].
    """

    cores: int
    generation_s: float
    exposed_s: float
    cpu_s: float
    busy: float

    @property
    def share(self) -> float:
        """Exposed time against generation alone: above its share of a step, which also updates."""
        return self.exposed_s / self.generation_s if self.generation_s else math.inf


class _Loop(asyncio.SelectorEventLoop):
    """Does not wait: simulated time jumps to the next timer."""

    class Clock(selectors.DefaultSelector):
        now = 0.0

        def select(self, timeout: float | None = None) -> Any:
            self.now += timeout or 0.0
            return []

    def __init__(self) -> None:
        self.clock = self.Clock()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


class _StubEvaluator:
    """Takes as long as ``work`` says for program number i; every program passes."""

    def __init__(self, work: list[list[float] | None], cores: int) -> None:
        self.work, self.free, self.cpu_s = work, asyncio.Semaphore(cores), 0.0

    async def aevaluate(self, code: str | None, tests: Mapping[str, Any]) -> ExecutionResult:
        count = len(tests["inputs"])
        if code is not None:
            seconds = min(SUITE_LIMIT_S, sum(self.work[int(code.partition("(")[2].rstrip(")"))] or []))
            async with self.free:
                await asyncio.sleep(seconds)
            self.cpu_s += seconds
        status = "no_code" if code is None else "ok"
        return {"passing": [code is not None] * count, "feedback": [""] * count, "status": status,
                "per_test": []}  # fmt: skip


def expose(load: Load, cores: int, seed: int = 0) -> Exposure:
    """Simulate one step with ``cores`` evaluator cores."""
    draws = load.draws(seed)
    last = max(end for end, _ in draws)

    async def run() -> tuple[float, float]:
        evaluator = _StubEvaluator([times for _, times in draws], cores)
        scorer = Scorer(evaluator, profile=PUBLISHED, count_tokens=len)  # type: ignore[arg-type]
        tests = {"inputs": [""] * load.tests, "outputs": [""] * load.tests}

        async def sample(number: int, end: float, has_code: bool) -> None:
            await asyncio.sleep(end)
            await scorer.score(_PROGRAM.format(number) if has_code else "cut", tests)

        await asyncio.gather(*(sample(i, end, work is not None) for i, (end, work) in enumerate(draws)))
        return asyncio.get_running_loop().time(), evaluator.cpu_s

    with asyncio.Runner(loop_factory=_Loop) as runner:
        finished, cpu_s = runner.run(run())
    return Exposure(cores, last, max(0.0, finished - last), cpu_s, cpu_s / (cores * finished))


def cores_needed(load: Load, share: float, seed: int = 0) -> Exposure:
    """The fewest cores that keep exposed time at ``share`` of generation at most (by bisection).

    Raises ValueError if no number of cores does: one program's suite alone takes longer.
    """
    least = expose(load, load.programs, seed)
    if least.share > share:
        raise ValueError(
            f"{100 * least.share:.1f} % of generation are exposed even with a core for every program: the "
            f"last programs alone take {least.exposed_s:.1f} s"
        )
    low, high = 0, load.programs
    while high - low > 1:
        middle = (low + high) // 2
        if expose(load, middle, seed).share <= share:
            high = middle
        else:
            low = middle
    return expose(load, high, seed)
