"""Mistakes that people make, and what they are told: one clear message each."""

import asyncio

import pytest

from cobalt import __main__ as cli
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun, Outcomes
from cobalt.evaluation.judge import JudgeSettings
from cobalt.rollouts.trajectory import OtherTaskFeedback, Place, verdict
from cobalt.testcases import TestCases
from cobalt.training.config import composed
from cobalt.training.offline_data import main as make_groups

TESTS = TestCases.parse('{"inputs": ["1", "2"], "outputs": ["1", "2"]}')
RAGGED = {"id": 1, "all_pass_rates": [[1]], "exec_status": [["ok", "ok"]]}


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda: Outcomes.of(RAGGED, "f:1"), "f:1: exec_status and all_pass_rates"),
        (lambda: compare([EvaluatedRun("x", None)]), "at least two runs"),
        (lambda: JudgeSettings(votes=0), "--num_completions must be at least 1, got 0"),
        (lambda: JudgeSettings(ask_again=-1), "--ask_again must be at least 0, got -1"),
        (lambda: OtherTaskFeedback(1), "at least two tasks"),
        (lambda: cli.main(["compear"]), "did you mean 'cobalt compare'"),
        (lambda: make_groups(["-i", "x", "-o", "y", "--group_size", "1"]), "--group_size must be at least 2"),
    ],
)
def test_what_a_mistake_is_answered_with(mistake, says):
    with pytest.raises(InputError) as error:
        mistake()
    assert says in str(error.value)


def test_trainings_that_cannot_be_resumed(tmp_path):
    def ask(resume, model="somewhere"):
        names, steps = ("multi_turn", "cpu", "tiny"), {"trainer.total_training_steps": 1}
        composed(tmp_path, (None, None, None), model, names, steps, 0, resume, [])

    with pytest.raises(InputError, match=r"--resume ?here: not auto, never or a folder global_step_N"):
        ask("here")
    with pytest.raises(InputError, match=r"--model somewhere: no such folder"):
        ask("never")
    with pytest.raises(InputError, match=r"no config\.json there, so this is no Hugging Face model folder"):
        ask("auto", tmp_path)
    step = tmp_path / "checkpoints" / "global_step_3"
    (step / "actor").mkdir(parents=True)
    (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("3")
    with pytest.raises(InputError, match=r"--resume never: .*checkpoints has a checkpoint"):
        ask("never")


class Answers:
    """An evaluator that gives prepared answers, one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def aevaluate(self, code, tests):
        return self.answers.pop(0)


async def test_an_evaluator_that_does_not_judge_is_a_fault_and_no_score():
    good = {"status": "ok", "passing": [True, False]}
    lost = {"status": "infra_error", "passing": [False, False]}
    assert await verdict(Answers(good), "x", TESTS) == good
    for answer, message in ((lost, "no verdict"), (good | {"passing": [True]}, "answered 1 of 2 tests")):
        with pytest.raises(InfraError, match=message):
            await verdict(Answers(answer), "x", TESTS)


async def test_whoever_waits_for_another_tasks_feedback_hears_of_its_failure():
    policy = OtherTaskFeedback(2)
    waiting = asyncio.ensure_future(policy.message(Place(0, 0, 0), "mine"))
    await asyncio.sleep(0)
    policy.abort(OSError("disk full"))
    for late in (waiting, policy.message(Place(0, 1, 0), "mine")):
        with pytest.raises(InfraError, match="another task failed, whose feedback was needed: disk full"):
            await late
