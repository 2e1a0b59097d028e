"""From completion to reward: retries, masks, metrics; a fault is never a score."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.rewards.cobalt import PLAIN, PUBLISHED
from cobalt.training import pools, scoring
from cobalt.training.groups import masked_keys
from cobalt.training.scoring import Scorer, batch_metrics, is_validation

TESTS = {"inputs": ["1", "2", "3", "4"], "outputs": ["", "", "", ""]}
ANSWER = "```python\nprint(1)\n```"


def verdict(*passing, **changes):
    tests = [{"status": "passed" if good else "wrong_answer"} for good in passing]
    given = {"passing": list(passing), "feedback": [""] * len(passing), "status": "ok", "per_test": tests}
    return given | changes


RIGHT, LOST = verdict(True, True, True, True), verdict(status="infra_error")
NO_CODE = verdict(False, False, False, False, status="no_code")


class Scripted:
    """An evaluator that answers from a list; an exception in it is raised."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def aevaluate(self, code, tests):
        self.asked.append(code)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def score(*answers, text=ANSWER, profile=PLAIN, wait_s=0.0, **given):
    scorer = Scorer(Scripted(*answers), profile=profile, count_tokens=len, retries=1, wait_s=wait_s)
    return asyncio.run(scorer.score(text, TESTS, **given))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    async def at_once(_):
        pass

    monkeypatch.setattr(scoring.asyncio, "sleep", at_once)


def test_the_reward_is_the_shaped_one():
    got = score(verdict(True, True, True, False), best=0.5)
    assert got.reward == pytest.approx(0.25) and not got.masked
    assert (got.info["pass_rate"], got.info["acc"]) == (0.75, 0.0)
    assert (got.info["improved"], got.info["regressed"]) == (1.0, 0.0)
    assert got.passing == (True, True, True, False)
    judged = score(RIGHT, profile=PUBLISHED)
    assert judged.reward == pytest.approx(0.1) and judged.info["format_penalty"] == -0.9
    none = score(NO_CODE, text="no program")
    assert (none.reward, none.info["has_code"], none.passing) == (-1.0, 0.0, (False,) * 4)
    assert score(verdict(True, True, True, False), validation=True).reward == 0.0
    assert score(RIGHT, validation=True).reward == 1.0


@pytest.mark.parametrize("asked", ["auto", "serve"])
def test_a_service_says_how_it_isolates(monkeypatch, asked):
    answer = SimpleNamespace(result=lambda timeout_s: {"isolation": "landlock"})
    handle = SimpleNamespace(status=SimpleNamespace(remote=lambda: answer))
    monkeypatch.setattr(pools, "application", lambda *_: handle)
    settings = SimpleNamespace(evaluator=asked)
    scoring.count_at_end(pools.start(settings))
    assert settings.evaluator == "serve" and scoring.close_evaluators() == {"isolation": "landlock"}


def test_without_a_service_auto_is_pools(monkeypatch):
    monkeypatch.setattr(pools, "application", lambda *_: None)
    monkeypatch.setattr(pools, "NodePools", lambda settings: settings.evaluator)
    settings = SimpleNamespace(evaluator="auto")
    assert pools.start(settings) == "local" and settings.evaluator == pools.HERE


def test_a_suite_that_ran_out_of_time_counts_as_pass_rate_0():
    limited = verdict(False, False, False, False, suite_limit=True)
    for place, status in enumerate(("passed", "passed", "time_limit", "time_limit")):
        limited["per_test"][place]["status"] = status
    got = score(limited)
    assert (got.reward, got.info["pass_rate"], got.info["time_limit"]) == (pytest.approx(-0.1), 0.0, 1.0)


@pytest.mark.parametrize("fault", [LOST, InfraError("gone"), OSError(), TimeoutError()])
def test_a_fault_is_retried_then_masked(fault):
    healed = score(fault, RIGHT)
    assert (healed.reward, healed.masked, healed.info["infra_errors"]) == (1.0, False, 1.0)
    lost = score(fault, fault)
    assert lost.masked and (lost.info["masked"], lost.info["infra_errors"], lost.passing) == (1.0, 2.0, ())
    assert lost.info.keys() == healed.info.keys()
    with pytest.raises(InfraError, match="no verdict on a validation sample"):
        score(fault, fault, validation=True)


def test_an_evaluator_that_is_away_is_waited_for(monkeypatch):
    now = [0.0]

    async def pass_time(seconds):
        now[0] += seconds

    monkeypatch.setattr(scoring.asyncio, "sleep", pass_time)
    monkeypatch.setattr(scoring.time, "monotonic", lambda: now[0])
    healed = score(*[InfraError("gone")] * 12, RIGHT, wait_s=60.0)
    assert (healed.reward, healed.masked, healed.info["infra_errors"]) == (1.0, False, 12.0)
    lost = score(*[InfraError("gone")] * 50, wait_s=30.0)
    assert lost.masked and 30.0 <= now[0] < 100.0
    assert score(LOST, LOST, wait_s=1000.0).masked  # it answers: this program is at fault, others are not


@pytest.mark.parametrize("error", [BadRequest("tests"), RuntimeError("bug")])
def test_a_wrong_request_and_a_bug_are_not_faults_of_the_evaluator(error):
    with pytest.raises(type(error)):
        score(error)


def test_the_canary_must_be_judged_rightly():
    def ready(*answers):
        asyncio.run(Scorer(Scripted(*answers), profile=PLAIN, count_tokens=len).ready())

    ready(verdict(True))
    with pytest.raises(InfraError, match="status 'ok', passing"):
        ready(verdict(False))
    with pytest.raises(InfraError, match="does not answer: ConnectionError: refused"):
        ready(ConnectionError("refused"))


def test_exposed_time_runs_from_the_last_request_to_the_last_verdict():
    times = {"from_unix_s": 10.0, "until_unix_s": 14.0}, {"from_unix_s": 11.0, "until_unix_s": 12.5}
    infos = [score(RIGHT).info | each for each in times]
    infos[0]["evaluator_s"], infos[1]["evaluator_s"] = 4.0, 1.5
    metrics = batch_metrics(infos)
    assert metrics["timing_s/reward_exposed"] == pytest.approx(3.0)
    waited = [metrics[f"reward/evaluator_s{name}"] for name in ("", "_p95", "_max")]
    assert waited == [pytest.approx(2.75), 4.0, 4.0] and not any("unix" in name for name in metrics)


def test_metrics_are_means_over_samples_with_a_verdict():
    infos = [
        score(RIGHT).info,
        score(verdict(True, False, False, False)).info,
        score(NO_CODE, text="none").info,
        score(LOST, LOST).info,
    ]
    metrics = batch_metrics(infos)
    assert metrics["reward/pass_rate"] == pytest.approx(1.25 / 3)
    assert metrics["reward/shaped"] == pytest.approx((1.0 + 0.0 - 1.0) / 3)
    assert metrics["reward/no_code"] == pytest.approx(1 / 3)
    assert all(math.isfinite(value) for value in metrics.values())
    assert batch_metrics(infos[3:]) == {"reward/infra_errors": 2.0, "reward/tests": 0.0}
    shared = score(verdict(True, True, True, True, shared=True)).info
    counted = batch_metrics([infos[0], shared, infos[3]])
    assert [counted[f"reward/{name}"] for name in ("tests", "shared", "infra_errors")] == [4, 0.5, 2]


def test_masked_samples_leave_and_groups_need_two():
    keys = [f"{uid}_{session}_0" for uid in "abc" for session in range(3)]
    gone = masked_keys(keys, [key in ("a_1_0", "b_0_0", "b_2_0") for key in keys])
    assert gone == {"a_1_0", "b_0_0", "b_1_0", "b_2_0"}  # of group b one sample is left: no baseline
    assert masked_keys(keys, [False] * 9) == set()
    keys = ["a_0_0", "a_0_1", "a_1_0", "a_1_1", "a_2_0"]  # an output takes its session with it
    assert masked_keys(keys, [False, True, False, False, False]) == {"a_0_0", "a_0_1"}


def test_settings_are_checked():
    assert is_validation({"split": "test"}) and not is_validation({"split": "train"})
    for check, said in (
        (lambda: is_validation({}), "got None"),
        (lambda: scoring.reward_profile("x"), "'x' is unknown; there are: no_thinking, plain, published"),
        (lambda: scoring.token_counter("words", None), "token_counter must be"),
    ):
        with pytest.raises(InputError, match=said):
            check()
