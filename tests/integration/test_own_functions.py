"""Feedback, contexts and environments of the user's own: the how-tos' files, and wrong ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from golden_contexts import WordTokenizer, rows
from rollout_tools import ScriptedEngine, ScriptedJudge, fence, task

from cobalt.contexts import build
from cobalt.contexts.rule import open_rule
from cobalt.errors import InputError, SettingsChanged
from cobalt.evaluator import LocalEvaluator, connect
from cobalt.evaluator.environment import open_environment
from cobalt.evaluator.runs import Run, RunRequest
from cobalt.prompts import TINY
from cobalt.rollouts.feedback import built_in, message, open_feedback
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import open_rows

ROOT = Path(__file__).parents[2]
OWN = ROOT / "examples" / "own"
SETTINGS = MultiTurnSettings(prompts=TINY, turns=2, n=1, first_turn=True)


def written(folder, text, name="own.py"):
    """A file with a function `f` or class `E`; returns the start of its spec."""
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("page", "names"),
    [("feedback", ["feedback"]), ("contexts", ["contexts"]), ("environment", ["asserts", "any_answer"])],
)
def test_the_pages_show_the_files(page, names):
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", text, re.S)
    assert shown == [(OWN / f"{name}.py").read_text() for name in names]
    assert all(len(code.partition("\nclass ")[2].splitlines()) <= 40 for code in shown)


# --- Feedback


def test_the_example_tells_less_than_the_built_in_text():
    own = open_feedback(f"{OWN}/feedback.py:count_and_input", "--feedback", TINY, {"most_characters": 12})
    told = "Input:\n1234567\nProgram's Output:\n3\nExpected Output:\n4"
    result = {"passing": [True, False], "feedback": ["", told], "status": "ok", "per_test": []}
    given = {"result": result, "code": "x", "prompts": TINY, "turn": 0}
    said = TINY.feedback_message("1 of 2 tests pass. It fails on\nInput:\n12345")
    assert message(own, **given) == said
    assert message(None, **given) == built_in(result, TINY) == TINY.feedback_message(told)
    assert message(None, **given | {"code": None}) == message(own, **given | {"code": None})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(result): return result['nothing']", r"own.py:1: --feedback=.*KeyError: 'nothing'"),
        ("def f(result): return 5", r"own.py:1: --feedback=.*must return text, got 5"),
        ("def f(code):\n    return code.upper()", r"own.py:2: .*\(tried on a response without a program\)"),
        ("def f(verdict): return ''", r"own.py:1: .*there is no 'verdict' to give it"),
        ("def g(): return ''", r"has no f"),
        ("import nothing_there", r"own.py:1: cannot be imported"),
    ],
)
def test_feedback_that_cannot_be_used(text, said, tmp_path):
    with pytest.raises(InputError, match=said):
        open_feedback(f"{written(tmp_path, text)}:f", "--feedback", TINY)


async def test_rollouts_show_it_keep_what_was_sampled_and_refuse_another(tmp_path):
    mark = tmp_path / "broken"
    file = written(
        tmp_path,
        "import os\n"
        "def f(result, turn):\n"
        f"    if turn == 1 and os.path.exists({str(mark)!r}):\n"
        "        raise ValueError('not now')\n"
        "    return f'turn {turn}: ' + str(None if result is None else result.pop('passing'))\n",
    )
    own = open_feedback(f"{file}:f", "--feedback", TINY)
    settings, out = replace(SETTINGS, feedback=own), tmp_path / "out.jsonl"
    engine = ScriptedEngine(lambda messages, *_: fence("pass 0") if len(messages) == 2 else "no program")
    mark.touch()
    summary = await multi_turn([task("a")], out, engine, ScriptedJudge(), settings, retries=1)
    assert summary.failed == 1
    assert f"{file}:4: --feedback={file}:f: ValueError: not now" in Path(f"{out}.failures.jsonl").read_text()
    mark.unlink()
    asked = len(engine.requests)
    await multi_turn([task("a")], out, engine, ScriptedJudge(), settings)
    assert len(engine.requests) == asked, "completions of the failed run are kept"
    row = json.loads(out.read_text())
    assert [m["content"] for m in row["conversations"][0][3::2]] == ["turn 0: [True, False]", "turn 1: None"]
    assert row["public_exec_results"][0][0]["passing"] == [True, False]
    manifest = json.loads(Path(f"{out}.manifest.json").read_text())
    assert manifest["own"]["feedback"] == {"spec": f"{file}:f", "where": f"{file}:2", "sha256": own.sha256}
    with pytest.raises(SettingsChanged, match="feedback_sha256"):
        await multi_turn([task("a")], out, engine, ScriptedJudge(), SETTINGS)


# --- Contexts


def test_the_examples_rule_cuts_before_success(tmp_path):
    rule = open_rule(f"{OWN}/contexts.py:before_success", "--contexts", tried=True)
    out = tmp_path / "out.jsonl"
    summary = build.build_contexts(rows(), out, rule=rule, tokenizer=WordTokenizer())
    made = [json.loads(line) for line in out.read_text().splitlines()]
    assert summary.by_depth[0] == summary.tasks == len(rows()) and summary.kept > 0
    assert summary.contexts == len(made) == sum(summary.by_depth.values()) and summary.stops
    shown = [each for each in made if len(each["conversation"]) > 2]
    assert shown and all(0 <= each["prev_best_pass_rate"] < 1 for each in shown)
    settings = json.loads(Path(f"{out}.manifest.json").read_text())["settings"]
    assert settings["rule_function"] == "before_success" and "policy" not in settings


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("yield 99, 0", "there is no sample 99 of"),
        ("yield -1, 0", "there is no sample -1 of"),
        ("yield 0, 4", "sample 0 cannot show 4 of its 3 programs"),
        ("yield 0, 1; yield 0, 1", "gives sample 0 with 1 programs twice"),
        ("yield 0, 0; yield 1, 0", "gives sample 1 with 0 programs twice"),
        ("yield 0, 1.5", r"must give pairs \(sample, programs shown\) of whole numbers, got \(0, 1.5\)"),
        ("yield True, 1", "must give pairs"),
        ("yield 3", "must give pairs"),
        ("return 3", "TypeError"),
        ("raise KeyError('x')", "own.py:2: --contexts=.*KeyError: 'x'"),
    ],
)
def test_a_rule_that_gives_what_there_is_not(body, said, tmp_path):
    rule = open_rule(f"{written(tmp_path, f'def f(task):{chr(10)}    {body}')}:f", "--contexts")
    with pytest.raises(InputError, match=rf"row 1: .*own\.py:[12]: .*{said}|row 1: .*{said}"):
        build.build_contexts(rows()[:1], tmp_path / "out", rule=rule, tokenizer=WordTokenizer())


def test_a_rule_may_give_nothing_and_stands_alone(tmp_path):
    rule = open_rule(f"{written(tmp_path, 'def f(task): return []')}:f", "--contexts")
    summary = build.build_contexts(rows()[:2], tmp_path / "out", rule=rule, tokenizer=WordTokenizer())
    assert (summary.skipped, summary.contexts) == (2, 0) and "no context of any task" in summary.warnings[0]
    with pytest.raises(InputError, match="--contexts takes the place of --policy and --selection"):
        build.main(["-i", "x", "-o", "y", "--contexts", "a.py:f", "--policy", "fixed"])


# --- Raw runs


@pytest.fixture(scope="module")
def local():
    with LocalEvaluator(2) as evaluator:
        yield evaluator


@pytest.mark.parametrize(
    ("source", "more", "wanted"),
    [
        ("print(int(input()) + 1)", {"stdin": "4\n"},
         {"status": "finished", "returncode": 0, "stdout": "5\n"}),
        ("import sys; sys.stdout.buffer.write(b'\\xff'); sys.exit(3)", {},
         {"status": "runtime_error", "returncode": 3, "stdout": "\udcff"}),
        ("def", {}, {"status": "runtime_error", "compiled": False}),
        ("while True: pass", {"time_s": 0.2}, {"status": "time_limit", "returncode": None}),
        ("bytearray(2 << 30)", {}, {"status": "memory_limit"}),
        ("print('x' * (1 << 25))", {}, {"status": "output_limit"}),
    ],
)  # fmt: skip
def test_a_raw_run(source, more, wanted, local):
    run = local.run(source, **more)
    assert {name: getattr(run, name) for name in wanted} == wanted


def test_files_of_a_run_are_there_for_it_alone(local):
    if local.isolation != "namespaces":
        pytest.skip("there is no folder of a program's own at this level")
    read = (
        "print(open('a/x', 'rb').read(), open('b').read())\ntry: open('b', 'w')\nexcept OSError: print('no')"
    )
    run = local.run(read, files={"a/x": b"\xff", "b": "text"})
    assert run.stdout == "b'\\xff' text\nno\n"
    assert local.run("open('y', 'w').write('z')", fetch_files=["y", "no"]).files == {"y": "eg=="}
    assert local.run("import os; print(os.listdir('.'))").stdout == "[]\n"


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"source": 3}, "'source'"), ({"source": "", "stdin": None}, "'stdin'"), ({}, "'source'"),
        ({"source": "", "time_s": 0}, "'time_s'"), ({"source": "", "time_s": True}, "'time_s'"),
        ({"source": "", "files": {"../x": ""}}, "'files'"), ({"source": "", "files": {"/x": ""}}, "'files'"),
        ({"source": "", "files": {"\ud800": ""}}, "'files'"),
        ({"source": "", "fetch_files": "x"}, "'fetch_files'"),
        ({"source": "", "files": {"a": "", "a/b": ""}}, "'files'"), ({"source": "", "more": 1}, "'source'"),
    ],
)  # fmt: skip
def test_requests_of_the_wrong_shape(request_, field):
    with pytest.raises(InputError, match=f"request: .*{field}"):
        RunRequest.parse(request_, "request")


# --- Environments

RIGHT, WRONG = "def double(n): return 2 * n", "def double(n): return n * n"
ASSERTS = {"inputs": ["assert double(2) == 4", "assert double(3) == 6"], "outputs": ["", ""]}


@pytest.mark.parametrize(
    ("code", "passing", "status"),
    [
        (RIGHT, [True, True], "ok"),
        (WRONG, [True, False], "ok"),
        (f"{RIGHT}\nexit(0)", [False, False], "ok"),
        (f"import os\n{RIGHT}\nos._exit(0)", [False, False], "ok"),
        ("import sys\ndef double(n): sys.exit(0)", [False, False], "ok"),
        ("def double(n", [False, False], "compile_error"),
        (None, [False, False], "no_code"),
    ],
)
def test_assertions_judge(code, passing, status, asserts):
    result = asserts.evaluate(code, ASSERTS)
    assert (result["passing"], result["status"]) == (passing, status)
    assert len(result["feedback"]) == len(result["per_test"]) == 2


@pytest.fixture(scope="module")
def asserts():
    with connect("local", workers=2, environment=f"{OWN}/asserts.py:Asserts") as evaluator:
        yield evaluator


def test_several_answers_are_right_and_sources_have_splits():
    (_, row), *_ = open_rows(f"{OWN}/any_answer.py:AnyAnswer", ("test", "heldout"))
    assert row["id"] == "heldout 0"
    search = (
        "t = int(input()); n = list(map(int, input().split()))\n"
        "print(*next((a, b) for a in {} for b in n if a != b and a + b == t))"
    )
    with connect("local", workers=1, environment=f"{OWN}/any_answer.py:AnyAnswer") as evaluator:
        for order in ("n", "reversed(n)"):
            assert evaluator.evaluate(search.format(order), row["test_cases"])["passing"] == [True] * 4
        for wrong in ("print(1, 2)", "print('x')", f"{search.format('n')}\nexit(1)"):
            assert evaluator.evaluate(wrong, row["test_cases"])["passing"] == [False] * 4
        assert evaluator.counters["tests"] == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class E: pass", "own.py:1: .*lacks accepts"),
        ("class E:\n    def accepts(self, wanted): return True", "own.py:2: .*no 'wanted' to give it"),
        ("class E:\n    def __init__(self, x): pass\n    def accepts(self): return True", "made without arg"),
    ],
)
def test_environments_that_cannot_be_used(text, said, tmp_path):
    with pytest.raises(InputError, match=said):
        open_environment(f"{written(tmp_path, text)}:E", "--environment")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def accepts(self, run):\n        raise KeyError('x')", r"own.py:3: .*KeyError: 'x' \(in accepts\)"),
        ("def accepts(self, run): return 1", "own.py:2: .*accepts must return True or False, got 1"),
        ("def accepts(self): return True\n    def program(self, code): return code", r"\(in program\)"),
        ("def accepts(self): return False\n    def feedback(self): return None", "feedback must return text"),
    ],
)
def test_a_fault_of_the_class_is_no_score(body, said, tmp_path, capsys):
    spec = f"{written(tmp_path, f'class E:{chr(10)}    {body}')}:E"
    with connect("local", workers=1, environment=spec) as evaluator:
        result = evaluator.evaluate("print(1)", {"inputs": ["1"], "outputs": ["1"]})
        assert result["status"] == "infra_error" and re.search(said, result["feedback"][0])
        assert re.search(said, capsys.readouterr().err) and evaluator.counters["infra_errors"] == 1
        with pytest.raises(InputError, match=said):
            evaluator.trial(task("a"))


def test_an_empty_program_that_passes_is_told(tmp_path, capsys):
    spec = f"{written(tmp_path, f'class E:{chr(10)}    def accepts(self): return True')}:E"
    with connect("local", workers=1, environment=spec) as evaluator:
        evaluator.trial(task("a"))
    assert "an empty program passes task 'a'" in capsys.readouterr().err
    assert Run("finished").compiled
