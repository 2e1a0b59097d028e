"""Mistakes that people make, and what they are told: one clear message each."""

from __future__ import annotations

import asyncio

import pytest

from cobalt import __main__ as cli
from cobalt import engines
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun, Outcomes
from cobalt.evaluation.judge import JudgeSettings
from cobalt.rollouts.trajectory import OtherTaskFeedback, Place, verdict
from cobalt.rows import open_rows
from cobalt.tasks.livecodebench import LcbSettings, func_name
from cobalt.tasks.taco import TacoSettings
from cobalt.testcases import TestCases
from cobalt.training.config import composed
from cobalt.training.offline_data import main as make_groups

TESTS = TestCases.parse('{"inputs": ["1", "2"], "outputs": ["1", "2"]}')


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda: open_rows("nowhere.jsonl"), "cannot read nowhere.jsonl: there is no such file or folder"),
        (lambda: open_rows(f"{__file__}:dev"), "is a file and has no split 'dev'"),
        (lambda: Outcomes.of({"id": 1, "all_pass_rates": []}, "f:1"), "f:1: all_pass_rates holds no samples"),
        (
            lambda: Outcomes.of({"id": 1, "all_pass_rates": [[1]], "exec_status": [["ok", "ok"]]}, "f:1"),
            "f:1: exec_status and all_pass_rates have different shapes",
        ),
        (lambda: compare([EvaluatedRun("x", None)]), "a comparison needs at least two runs"),
        (lambda: JudgeSettings(votes=0), "--num_completions must be at least 1, got 0"),
        (lambda: JudgeSettings(ask_again=-1), "--ask_again must be at least 0, got -1"),
        (lambda: LcbSettings(functional="some"), "--functional must be one of"),
        (lambda: func_name({"metadata": "{"}, "f:1"), "f:1: field 'metadata': not valid JSON"),
        (lambda: TacoSettings(dev_size=-1), "--dev_size and --max_solutions must not be negative"),
        (
            lambda: TacoSettings(max_solutions=0, require_verified=True),
            "--require_verified needs --max_solutions of at least 1",
        ),
        (lambda: TacoSettings(functional="some"), "--functional must be one of"),
        (lambda: OtherTaskFeedback(1), "feedback of another task needs at least two tasks"),
        (lambda: engines.connect("gpt", "m"), "unknown engine 'gpt': choose one of"),
        (lambda: engines.connect("openai", None), "engine 'openai' needs --model_name"),
        (lambda: engines.connect("openai", "m"), "engine 'openai' needs --base_url, for instance http"),
        (
            lambda: engines.connect("transformers", "m", "http://localhost"),
            "engine 'transformers' runs in this process: --base_url does not go with it",
        ),
        (
            lambda: cli.main(["compear"]),
            "there is no command 'cobalt compear'; did you mean 'cobalt compare'",
        ),
    ],
)
def test_what_a_mistake_is_answered_with(mistake, says):
    with pytest.raises(InputError) as error:
        mistake()
    assert says in str(error.value)


def test_trainings_that_cannot_be_resumed(tmp_path):
    def ask(resume, model="somewhere"):
        names = ("multi_turn", "cpu", "tiny")
        composed(
            tmp_path, (None, None, None), model, names, {"trainer.total_training_steps": 1}, 0, resume, []
        )

    with pytest.raises(InputError, match=r"--resume ?here: not auto, never or a folder global_step_N"):
        ask("here")
    with pytest.raises(InputError, match=r"--model somewhere: no such folder"):
        ask("never")
    with pytest.raises(InputError, match=r"no config\.json there, so it is no Hugging Face model folder"):
        ask("auto", tmp_path)
    step = tmp_path / "checkpoints" / "global_step_3"
    (step / "actor").mkdir(parents=True)
    (tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("3")
    with pytest.raises(InputError, match=r"--resume never: .*checkpoints has a checkpoint"):
        ask("never")


def test_groups_of_one_are_refused(tmp_path):
    with pytest.raises(InputError, match="--group_size must be at least 2"):
        make_groups(["-i", "x.jsonl", "-o", str(tmp_path / "g.parquet"), "--group_size", "1"])


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
    with pytest.raises(InfraError, match="the evaluator had no verdict"):
        await verdict(Answers(lost), "x", TESTS)
    with pytest.raises(InfraError, match="the evaluator answered 1 of 2 tests"):
        await verdict(Answers({"status": "ok", "passing": [True]}), "x", TESTS)


async def test_whoever_waits_for_another_tasks_feedback_hears_of_its_failure():
    policy = OtherTaskFeedback(2)
    waiting = asyncio.ensure_future(policy.message(Place(0, 0, 0), "mine"))
    await asyncio.sleep(0)
    policy.abort(OSError("disk full"))
    for late in (waiting, policy.message(Place(0, 1, 0), "mine")):
        with pytest.raises(InfraError, match="another task failed, whose feedback was needed: disk full"):
            await late
