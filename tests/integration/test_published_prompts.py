"""The wording imported from the published repository, against the messages that its own scripts send.

Its scripts run unmodified, each in a process of its own. `ray.serve` and `litellm` are stood in for by
modules that answer as they are told to and note what they were sent.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from data_rows import lcb, read, write
from import_prompts import main as import_prompts
from rollout_tools import ScriptedEngine, fence

from cobalt.evaluation.judge import JudgeSettings, judge_file
from cobalt.evaluator import LocalEvaluator
from cobalt.prompts import ALL_PASSED_MARKER, FEEDBACK_MARKER, JUDGE_FIELDS, load
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.tasks.livecodebench import main as lcb_main
from cobalt.text import extract_code

PUBLISHED = Path(os.environ.get("COBALT_PUBLISHED_REPO", ""))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("COBALT_PUBLISHED_REPO"),
        reason="COBALT_PUBLISHED_REPO names no clone of OSU-NLP-Group/cobalt",
    ),
]
SERVE = """
import asyncio, json, os
GIVEN, SENT, sleep = json.load(open(os.environ["STUB"])), open(os.environ["SENT"], "a"), asyncio.sleep
asyncio.sleep = lambda *_: sleep(0)

class Handle:
    def __init__(self, name):
        self.name = name

    async def remote(self, request=None, messages=None, n=1, is_batch=False, **more):
        if self.name == "Evaluator":
            return GIVEN["verdicts"][request["code"]]
        print(json.dumps(messages), file=SENT, flush=True)
        turn = len(messages[0]) // 2 - 1
        return {"responses": [answers[turn] for answers in GIVEN["answers"]]}

def get_deployment_handle(name, app_name):
    return Handle(name)
"""
LITELLM = """
import json, os
from types import SimpleNamespace as Namespace

def completion(messages, **more):
    print(json.dumps(messages), file=open(os.environ["SENT"], "a"))
    usage = Namespace(prompt_tokens=1, completion_tokens=1, completion_tokens_details=None)
    return Namespace(choices=[Namespace(message=Namespace(content="none"))], usage=usage)
"""
RIGHT, WRONG, HALF = "print(sum(map(int, input().split())))", "print('{} {0} {feedback}')", "print(3)"
RAISES, LIES = "int('x')", f"print('{FEEDBACK_MARKER}\\n{ALL_PASSED_MARKER}')"
ANSWERS = [
    [fence(each) for each in (WRONG, RAISES, HALF, RIGHT, RIGHT, LIES)] + ["none", fence(RIGHT), "```none"],
    ["none", fence(RIGHT), fence(HALF), "{}", fence(LIES), fence(RAISES), fence(RIGHT), fence(WRONG), "x"],
]
TESTS = json.dumps({"inputs": ["1 2", "5 6"], "outputs": ["3", "11"]})


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.json"
    assert import_prompts([str(PUBLISHED), "-o", str(path)]) == 0
    return path


@pytest.fixture
def published(tmp_path):
    """Runs a published script in a folder of its own; returns what it sent to its models."""

    def run(script, *arguments, **given):
        stubs = tmp_path / "stubs"
        (stubs / "ray").mkdir(parents=True)
        (stubs / "ray/__init__.py").write_text("")
        (stubs / "ray/serve.py").write_text(SERVE)
        (stubs / "litellm.py").write_text(LITELLM)
        (tmp_path / "stub.json").write_text(json.dumps(given))
        sent = tmp_path / "sent.jsonl"
        sent.touch()
        env = os.environ | {
            "PYTHONPATH": str(stubs), "STUB": str(tmp_path / "stub.json"), "SENT": str(sent),
            "HF_HOME": str(tmp_path / "hub"), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, str(PUBLISHED / script), *map(str, arguments)],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return read(sent)

    return run


async def test_a_dialogue_is_the_published_one_byte_for_byte(file, published, tmp_path):
    prompts = load(str(file))
    tests = {name: TESTS for name in ("test_cases", "public_test_cases", "hidden_test_cases")}
    row = {"id": "a", "instruction": prompts.wrap("Add {them}."), "difficulty": "EASY", **tests}
    source = write(tmp_path / "in.jsonl", [row | {"responses": [each[0] for each in ANSWERS]}])
    turns = len(ANSWERS[0])

    def reply(messages, sampling, index):
        answers = next(each for each in ANSWERS if each[0] == messages[2]["content"])
        return answers[len(messages) // 2 - 1]

    with LocalEvaluator() as evaluator:
        settings = MultiTurnSettings(prompts=prompts, turns=turns)
        await multi_turn(source, tmp_path / "ours.jsonl", ScriptedEngine(reply), evaluator, settings)
    (mine,) = read(tmp_path / "ours.jsonl")
    verdicts = {
        extract_code(said): mine["public_exec_results"][turn][sample]
        for sample, answers in enumerate(ANSWERS) for turn, said in enumerate(answers) if extract_code(said)
    }  # fmt: skip
    published(
        "run_multi_turn_vllm.py", "-i", source, "-o", "theirs.jsonl", verdicts=verdicts, answers=ANSWERS
    )
    (theirs,) = read(tmp_path / "theirs.jsonl")
    assert mine["conversations"] == theirs["conversations"]
    assert mine["public_pass_rates"] == theirs["public_pass_rates"]
    said = [message["content"] for message in mine["conversations"][0][3::2]]
    assert all(FEEDBACK_MARKER in each for each in said) and ALL_PASSED_MARKER in said[3]


def test_statements_are_put_as_published(file, published, tmp_path):
    rows = [
        lcb("q1"),
        lcb("q2", question_content=" Sort {it}.\n\nSample Input 1\n\n1"),
        lcb("q3", functional=True),
    ]
    write(tmp_path / "test6.jsonl", rows)
    (tmp_path / "data").mkdir()
    published("preproc/preproc_lcb_test6.py")
    mine = tmp_path / "mine.jsonl"
    assert lcb_main(["-i", str(tmp_path / "test6.jsonl"), "-o", str(mine), "--prompts", str(file)]) == 0
    theirs = {row["id"]: row["instruction"] for row in read(tmp_path / "data/lcb_v6.jsonl")}
    assert {row["id"]: row["instruction"] for row in read(mine)} == theirs and len(theirs) == 3


async def test_the_judge_is_told_what_is_published(file, published, tmp_path):
    case = {name: f"{name} {{}} {{patch}}\nof a case" for name in JUDGE_FIELDS} | {"id": 1}
    source = write(tmp_path / "cases.jsonl", [case])
    engine = ScriptedEngine(lambda *_: "none")
    settings = JudgeSettings(ask_again=0, prompts=load(str(file)))
    await judge_file(source, tmp_path / "ours.jsonl", engine, settings)
    sent = published("run_llm_judge.py", "-i", source, "-o", "theirs.jsonl")
    assert sent == [engine.requests[0][0]]
