"""From completion to reward: retries, masks, metrics; a fault is never a score."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.rewards.cobalt import PLAIN, PUBLISHED, shaped_reward
from cobalt.training import pools, scoring
from cobalt.training.own_recipe import own_reward
from cobalt.training.scoring import Scorer, batch_metrics, is_validation, masked_keys

TESTS = {"inputs": ["1", "2", "3", "4"], "outputs": ["", "", "", ""]}
ANSWER = "```python\nprint(1)\n```"


def verdict(*passing, **changes):
    return {
        "passing": list(passing),
        "feedback": [""] * len(passing),
        "status": "ok",
        "per_test": [{"status": "passed" if good else "wrong_answer"} for good in passing],
        **changes,
    }


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


def score(evaluator, text=ANSWER, *, profile=PLAIN, **given):
    async def run():
        scorer = Scorer(evaluator, profile=profile, count_tokens=len, retries=1)
        return await scorer.score(text, TESTS, **given)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    async def at_once(_):
        pass

    monkeypatch.setattr(scoring.asyncio, "sleep", at_once)


def test_the_reward_is_the_shaped_one():
    got = score(Scripted(verdict(True, True, True, False)), best=0.5)
    assert (
        got.reward
        == shaped_reward(ANSWER, 0.75, prev_best_pass_rate=0.5, count_tokens=len, profile=PLAIN).total
        == pytest.approx(0.25)
    )
    assert not got.masked and got.info["pass_rate"] == 0.75 and got.info["acc"] == 0.0
    assert got.info["improved"] == 1.0 and got.info["regressed"] == 0.0
    assert score(Scripted(verdict(True, True, True, True)), best=0.5).info["acc"] == 1.0
    judged = score(Scripted(verdict(True, True, True, True)), profile=PUBLISHED)
    assert judged.reward == pytest.approx(0.1) and judged.info["format_penalty"] == -0.9
    evaluator = Scripted(verdict(False, False, False, False, status="no_code"))
    none = score(evaluator, "no program")
    assert (none.reward, none.info["has_code"], evaluator.asked) == (-1.0, 0.0, [None])


def test_a_reward_of_ones_own_takes_the_shaped_ones_place_in_training():
    seen = []

    def own(completion, result, best):
        seen.append((completion, result["passing"], best))
        return 0.125

    async def run(**given):
        scorer = Scorer(Scripted(verdict(True, True, True, True)), profile=PLAIN, count_tokens=len, own=own)
        return await scorer.score(ANSWER, TESTS, best=0.5, **given)

    got = asyncio.run(run())
    assert (got.reward, got.info["shaped"], got.info["acc"]) == (0.125, 0.125, 1.0)
    assert seen == [(ANSWER, [True] * 4, 0.5)]
    assert asyncio.run(run(validation=True)).reward == 1.0 and len(seen) == 1


@pytest.mark.parametrize("name", ["json", "json:", "json:none", "json:__doc__", "no_such_module:reward"])
def test_a_reward_that_is_not_there_is_refused(name):
    with pytest.raises(InputError, match=r"cobalt\.reward"):
        own_reward(name)


def test_tests_run_are_counted_for_evaluators_that_others_use_too():
    infos = [
        score(Scripted(verdict(True, False, True, True))).info,
        score(Scripted(verdict(True, True, True, True, shared=True))).info,
        score(Scripted(OSError(), OSError())).info,
    ]
    found = batch_metrics(infos)
    assert (found["reward/tests"], found["reward/infra_errors"]) == (4, 2)


@pytest.mark.parametrize("asked", ["auto", "serve"])
def test_a_service_says_how_it_isolates(monkeypatch, asked):
    answer = SimpleNamespace(result=lambda timeout_s: {"isolation": "landlock"})
    handle = SimpleNamespace(status=SimpleNamespace(remote=lambda: answer))
    monkeypatch.setattr(pools, "application", lambda *_: handle)
    settings = SimpleNamespace(evaluator=asked)
    scoring.count_at_end(pools.start(settings))
    assert settings.evaluator == "serve" and scoring.close_evaluators() == {"isolation": "landlock"}


def test_validation_asks_only_whether_all_tests_passed():
    assert score(Scripted(verdict(True, True, True, False)), validation=True).reward == 0.0
    assert score(Scripted(verdict(True, True, True, True)), validation=True).reward == 1.0


def test_a_suite_that_ran_out_of_time_counts_as_pass_rate_0():
    limited = verdict(False, False, False, False, suite_limit=True)
    for place, status in enumerate(("passed", "passed", "time_limit", "time_limit")):
        limited["per_test"][place]["status"] = status
    got = score(Scripted(limited))
    assert (got.reward, got.info["pass_rate"], got.info["time_limit"]) == (pytest.approx(-0.1), 0.0, 1.0)


@pytest.mark.parametrize(
    "fault", [verdict(status="infra_error"), InfraError("gone"), OSError(), TimeoutError()]
)
def test_a_fault_is_retried_then_masked(fault):
    healed = score(Scripted(fault, verdict(True, True, True, True)))
    assert (healed.reward, healed.masked, healed.info["infra_errors"]) == (1.0, False, 1.0)
    lost = score(Scripted(fault, fault))
    assert lost.masked and lost.info["masked"] == 1.0 and lost.info["infra_errors"] == 2.0
    assert lost.info.keys() == healed.info.keys()
    with pytest.raises(InfraError, match="no verdict on a validation sample"):
        score(Scripted(fault, fault), validation=True)


def test_an_evaluator_that_is_away_is_waited_for(monkeypatch):
    now = [0.0]

    async def pass_time(seconds):
        now[0] += seconds

    monkeypatch.setattr(scoring.asyncio, "sleep", pass_time)
    monkeypatch.setattr(scoring.time, "monotonic", lambda: now[0])

    def ask(*answers, wait_s):
        async def run():
            scorer = Scorer(Scripted(*answers), profile=PLAIN, count_tokens=len, retries=1, wait_s=wait_s)
            return await scorer.score(ANSWER, TESTS)

        return asyncio.run(run())

    away = [InfraError("gone")] * 12
    healed = ask(*away, verdict(True, True, True, True), wait_s=60.0)
    assert (healed.reward, healed.masked, healed.info["infra_errors"]) == (1.0, False, 12.0)
    lost = ask(*[InfraError("gone")] * 50, wait_s=30.0)
    assert lost.masked and 30.0 <= now[0] < 100.0
    broken = [verdict(status="infra_error")] * 2  # it answers: this program is at fault, others are not
    assert ask(*broken, wait_s=1000.0).masked


def test_the_outcome_of_every_test_is_kept_for_dense_rewards():
    assert score(Scripted(verdict(True, False, True, True))).passing == (True, False, True, True)
    assert score(Scripted(verdict(False, status="no_code")), "no program").passing == (False,) * 4
    assert score(Scripted(InfraError("gone"), InfraError("gone"))).passing == ()


def test_exposed_time_runs_from_the_last_request_to_the_last_verdict():
    infos = [score(Scripted(verdict(True, True, True, True))).info | extra for extra in (
        {"from_unix_s": 10.0, "until_unix_s": 14.0, "evaluator_s": 4.0},
        {"from_unix_s": 11.0, "until_unix_s": 12.5, "evaluator_s": 1.5},
    )]  # fmt: skip
    metrics = batch_metrics(infos)
    assert metrics["timing_s/reward_exposed"] == pytest.approx(3.0)
    assert metrics["reward/evaluator_s_max"] == 4.0 and metrics["reward/evaluator_s"] == pytest.approx(2.75)
    assert not any("unix" in name for name in metrics)


def test_a_wrong_request_and_a_bug_are_not_faults_of_the_evaluator():
    for error in (BadRequest("tests"), RuntimeError("bug")):
        with pytest.raises(type(error)):
            score(Scripted(error))


def test_the_canary_must_be_judged_rightly():
    def ready(*answers):
        asyncio.run(Scorer(Scripted(*answers), profile=PLAIN, count_tokens=len).ready())

    ready(verdict(True))
    with pytest.raises(InfraError, match="status 'ok', passing"):
        ready(verdict(False))
    with pytest.raises(InfraError, match="does not answer: ConnectionError: refused"):
        ready(ConnectionError("refused"))


def test_metrics_are_means_over_samples_with_a_verdict():
    infos = [
        score(Scripted(verdict(True, True, True, True))).info,
        score(Scripted(verdict(True, False, False, False))).info,
        score(Scripted(verdict(False, False, False, False, status="no_code")), "none").info,
        score(Scripted(verdict(status="infra_error"), verdict(status="infra_error"))).info,
    ]
    metrics = batch_metrics(infos)
    assert metrics["reward/pass_rate"] == pytest.approx(1.25 / 3)
    assert metrics["reward/shaped"] == pytest.approx((1.0 + 0.0 - 1.0) / 3)
    assert metrics["reward/no_code"] == pytest.approx(1 / 3)
    assert metrics["reward/infra_errors"] == 2.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert batch_metrics(infos[3:]) == {"reward/infra_errors": 2.0}


def test_validation_is_told_by_the_split():
    assert is_validation({"split": "test"}) and not is_validation({"split": "train"})
    with pytest.raises(InputError, match="got None"):
        is_validation({})


def test_masked_samples_leave_and_groups_need_two():
    keys = [f"{uid}_{session}_0" for uid in "abc" for session in range(3)]
    masked = dict.fromkeys(keys, False) | {"a_1_0": True, "b_0_0": True, "b_2_0": True}
    gone = masked_keys(keys, list(masked.values()))
    assert gone == {"a_1_0", "b_0_0", "b_1_0", "b_2_0"}  # of group b one sample is left: no baseline
    assert masked_keys(keys, [False] * 9) == set()


def test_a_masked_output_takes_its_session_with_it():
    keys = ["a_0_0", "a_0_1", "a_1_0", "a_1_1", "a_2_0"]
    assert masked_keys(keys, [False, True, False, False, False]) == {"a_0_0", "a_0_1"}


def test_settings_are_checked():
    with pytest.raises(
        InputError, match="reward profile 'x' is unknown; there are: no_thinking, plain, published"
    ):
        scoring.reward_profile("x")
    with pytest.raises(InputError, match="token_counter must be"):
        scoring.token_counter("words", None)
