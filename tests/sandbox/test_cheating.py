"""Programs that want to pass without solving the task."""

import pytest

from cobalt.evaluator import LocalEvaluator
from cobalt.sandbox.guest import protocol
from cobalt.sandbox.limits import ENVIRONMENT

SECRET = "the-expected-answer-7319"


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def judge(request, usable):
    with LocalEvaluator(1, isolation=usable(request.param)) as evaluator:

        def run(code, inputs=("",), outputs=(SECRET,), fn_name=None):
            tests = {"inputs": list(inputs), "outputs": list(outputs), "fn_name": fn_name}
            result = evaluator.evaluate(code, tests)
            assert result["status"] != "infra_error", result["feedback"]
            return result

        yield run


def statuses(result):
    return [test["status"] for test in result["per_test"]]


SEARCH = """
import re
data = input()
print('no')
for line in open('/proc/self/maps'):
    start, end = (int(each, 16) for each in line.split()[0].split('-'))
    if 'r' not in line.split()[1] or 'vvar' in line or 'vsyscall' in line or end - start > 1 << 28:
        continue
    with open('/proc/self/mem', 'rb') as memory:
        try:
            memory.seek(start)
            found = re.findall(rb'the-expected[-][a-z]+-[0-9]+|other[-]input', memory.read(end - start))
        except (OSError, ValueError, OverflowError):
            continue
    if found: print('found', found)
"""


def test_neither_expected_outputs_nor_other_inputs_are_in_the_program_s_memory(judge):
    result = judge(SEARCH, ["other-input", "mine", "mine"], [SECRET, "no", "no"])
    assert statuses(result) in (["wrong_answer", "passed", "passed"], ["runtime_error"] * 3)
    assert "7319" not in result["feedback"][0].split("Expected Output:")[0]


def test_no_descriptor_leads_to_the_host(judge):
    code = """
import os
for fd in range(3, 1000):
    try:
        os.fstat(fd)
        print(fd)
    except OSError:
        pass
"""
    assert judge(code, outputs=[""])["passing"] == [True]


def test_a_forged_answer_of_the_harness_is_not_believed(judge):
    done = (
        protocol.DONE
        + protocol.FACTS.pack(protocol.WHY.index(""), protocol.RUNNING, 0.01, 0.0, 0.0)
        + bytes(protocol.USAGE.size)
    )
    code = f"""
import os
for fd in range(8):
    for data in ({done!r}, b'{{"passing": [true]}}'):
        try: os.write(fd, data)
        except OSError: pass
"""
    assert judge(code)["passing"] == [False]


def test_os_exit_after_partial_output_is_judged_by_what_came_out(judge):
    code = "import os, sys\nprint('1', flush=True)\nprint('2')\nos._exit(0)"
    assert statuses(judge(code, outputs=["1\n2"])) == ["wrong_answer"]
    assert statuses(judge(code, outputs=["1"])) == ["passed"]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("sys.exit(3)", "runtime_error"),
        ("os._exit(3)", "runtime_error"),
        ("1 / 0", "runtime_error"),
        ("quit('no')", "runtime_error"),
        ("exit()", "passed"),
        ("raise SystemExit", "passed"),
        ("os._exit(0)", "passed"),
    ],
)
def test_right_output_counts_only_with_a_good_exit_status(judge, ending, status):
    assert statuses(judge(f"import os, sys\nprint('1', flush=True)\n{ending}", outputs=["1"])) == [status]


@pytest.mark.parametrize("base", ["object", "str", "int", "list", "dict"])
def test_objects_that_claim_equality_are_reduced_to_values(judge, base):
    code = f"""
class Any({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def strip(self, *_): return self
def f(x): return Any()
"""
    assert statuses(judge(code, [[1]], ["never"], "f")) in (["wrong_answer"], ["runtime_error"])


def test_patched_builtins_change_nothing(judge):
    code = """
import builtins, json, sys
builtins.compile = builtins.exec = builtins.print = lambda *a, **k: None
json.dumps = json.loads = lambda *a, **k: True
str.strip if True else None
sys.modules.clear()
"""
    assert not any(judge(code)["passing"])


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import json\njson.dumps = lambda *a, **k: '2'\ndef f(x): return 3", "wrong_answer"),
        ("def f(x):\n    print('4')\n    return 3", "wrong_answer"),
        ("def f(x):\n    print('4')\n    raise SystemExit", "runtime_error"),
    ],
)
def test_only_what_a_function_returns_is_its_answer(judge, code, status):
    assert statuses(judge(code, [[1]], [4], "f")) == [status]


def test_frames_above_the_program_hold_nothing_of_use(judge):
    code = """
import sys
frame = sys._getframe()
while frame is not None:
    for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
        if 'the-expected-' + 'answer' in repr(value)[:100000]:
            print(name)
    frame = frame.f_back
sys._getframe(1).f_globals['os']._exit(0)
"""
    result = judge(code)
    assert result["passing"] == [False]


def test_no_secret_of_the_host_s_environment(judge, monkeypatch):
    monkeypatch.setenv("API_KEY", "sk-secret")
    code = "import os\nprint(sorted(os.environ))"
    text = judge(code)["feedback"][0]
    assert "API_KEY" not in text
    assert any(str(sorted({*ENVIRONMENT, *more})) in text for more in ([], ["LC_CTYPE"]))
