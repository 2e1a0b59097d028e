"""What foreign trainers and evaluations need of our judge: a scorer by name, and what their messages mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.evaluator import connect
from cobalt.own import load
from cobalt.prompts import load as load_prompts
from cobalt.rollouts import feedback
from cobalt.rollouts.inputs import shown_tests
from cobalt.rollouts.trajectory import verdict
from cobalt.rows import require, type_name
from cobalt.tasks.own import is_perturbed
from cobalt.tasks.sets import task_set
from cobalt.testcases import TestCases
from cobalt.text import THINK_END, extract_code, load_tokenizer, o200k_counter, tokenizer_counter
from cobalt.training.reward import BUILT_IN, OFFERED
from cobalt.training.scoring import Scorer, reward_profile

REWARDS = {"shaped": BUILT_IN, "passed": f"{__name__}:passed"}


def passed(pass_rate: float) -> float:
    """The plain reward: 1.0 if every test passed, else 0.0."""
    return float(pass_rate == 1.0)


def open_scorer(
    reward: str = "shaped", evaluator: str = "local", *, workers: int | None = None,
    environment: str | None = None, profile: str = "published", tokenizer: Any = None,
) -> Scorer:  # fmt: skip
    """A scorer by the names of its parts.

    Args: ``reward`` ``shaped`` (the paper's, in [-1, 1]), ``passed`` (0 or 1), or ``FILE.py:NAME`` of your
    own; ``evaluator``, ``workers``, ``environment`` as `cobalt.evaluator.connect` takes them: in process,
    or by URL; ``profile`` of the shaped reward, a name in `cobalt.rewards.cobalt.PROFILES`; ``tokenizer``
    (an object, a folder or a hub name) counts the tokens of rewards that depend on lengths, else
    ``o200k_base`` does. Raises InputError for what cannot be used, InfraError for an evaluator that judges
    wrongly.
    """
    own, found = load(REWARDS.get(reward, reward), "reward", OFFERED), reward_profile(profile)
    count: Any = len  # where nobody counts
    if "count_tokens" in own.takes and (found.judge_format or own.spec != BUILT_IN):
        chosen = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        count = o200k_counter() if chosen is None else tokenizer_counter(chosen)
    opened = connect(evaluator, workers=workers, environment=environment)
    return Scorer(opened, profile=found, count_tokens=count, reward=own)


def tests_of(row: Mapping[str, Any], where: str) -> tuple[TestCases, float]:
    """All tests of a row, and the best pass rate that its prompt shows (0 where none is told).

    A row is a task or a context (`test_cases`, else public and hidden ones), or one of verl's
    (`reward_model`, `extra_info`). Raises InputError that begins with ``where`` and names the field.
    """
    extra, verl = (
        {} if row.get(name) is None else require(row, name, dict, where)
        for name in ("extra_info", "reward_model")
    )
    best = row.get("prev_best_pass_rate", extra.get("prev_best_pass_rate")) or 0.0
    if isinstance(best, bool) or not isinstance(best, int | float) or not 0 <= best <= 1:
        raise InputError(f"{where}: field 'prev_best_pass_rate' must be in [0, 1], got {best!r:.40}")
    names = ("public_test_cases", "hidden_test_cases") if row.get("test_cases") is None else ("test_cases",)
    found: dict[str, Any] = {name: row.get(name) for name in names}
    found = {"ground_truth": verl.get("ground_truth")} if verl else found
    if None in found.values():
        raise InputError(f"{where}: field 'test_cases' is missing")
    suites = [TestCases.parse(each, where=f"{where}: field '{name}'") for name, each in found.items()]
    tests = suites[0] + suites[1] if len(suites) > 1 else suites[0]
    if not len(tests):
        raise InputError(f"{where}: field '{next(iter(found))}' holds no tests")
    return tests, float(best)


def text_of(completion: Any, where: str) -> str:
    """A completion's text: of a dialogue that of its last message, with the thinking that was taken out of
    it. Raises InputError for what is neither text nor messages.
    """
    if isinstance(completion, str):
        return completion
    last = completion[-1] if isinstance(completion, Sequence) and completion else None
    if not isinstance(last, Mapping):
        raise InputError(f"{where}: a completion must be text or messages, got {type_name(completion)}")
    content, thinking = last.get("content") or "", last.get("reasoning_content")
    if not isinstance(content, str):  # in parts
        content = "".join(part.get("text", "") for part in content)
    return f"{thinking}{THINK_END}\n{content}" if thinking else content


@dataclass(frozen=True)
class Settings:
    """``tasks`` and ``prompts`` as `cobalt eval` takes them; ``turns``: programs of a dialogue, of which the
    last one is scored; with ``stop_when_passed`` the first that passes its public tests is the last. The
    rest as `open_scorer` takes it.
    """

    tasks: str = "tiny"
    prompts: str = "default"
    turns: int = 1
    stop_when_passed: bool = False
    reward: str = "passed"
    evaluator: str = "local"
    workers: int | None = None
    environment: str | None = None
    profile: str = "published"
    tokenizer: str | None = None


class TaskJudge:
    """The tasks by id (as text), what the model is told, and its scores. Raises InputError for settings that
    cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        named = asdict(settings)
        self.turns, self.until_passed = named.pop("turns"), named.pop("stop_when_passed")
        if self.turns < 1:
            raise InputError(f"turns must be at least 1, got {self.turns}")
        self.prompts = load_prompts(named.pop("prompts"))
        rows = [row for _, row in task_set(named.pop("tasks"), self.prompts)]
        self.tasks = {str(row["id"]): row for row in rows}
        if len(self.tasks) != len(rows) or not rows:
            raise InputError(f"{settings.tasks}: there are no tasks, or two ids are one as text")
        self.scorer = open_scorer(**named)

    async def message(self, key: str, text: str, turn: int) -> str | None:
        """The user message after program ``turn`` (from 0); None where the dialogue is over."""
        if turn + 1 >= self.turns:
            return None
        code, row = extract_code(text), self.tasks[key]
        tests = shown_tests(row, "perturbed" if is_perturbed(row) else "public", f"task {key!r}")
        result = await verdict(self.scorer.evaluator, code, tests)
        if self.until_passed and all(result["passing"]):
            return None
        return feedback.message(None, result=result, code=code, prompts=self.prompts, turn=turn)

    async def score(self, key: str, last: Any) -> tuple[float, dict[str, float]]:
        """Reward of a dialogue by its ``last`` message, and measures. Raises InfraError if it has none."""
        text, (tests, best) = text_of([last], key), tests_of(self.tasks[key], f"task {key!r}")
        score = await self.scorer.score(text, tests, best=best)
        if score.masked:
            raise InfraError(f"task {key!r}: there is no verdict")
        return score.reward, {"passed": score.info["acc"], "pass_rate": score.info["pass_rate"]}
