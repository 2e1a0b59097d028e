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


def test_the_expected_output_is_not_in_the_program_s_memory(judge):
    code = """
import re
needle = 'the-expected-' + 'answer'
for line in open('/proc/self/maps'):
    start, end = (int(each, 16) for each in line.split()[0].split('-'))
    if 'r' not in line.split()[1] or 'vvar' in line or 'vsyscall' in line or end - start > 1 << 28:
        continue
    with open('/proc/self/mem', 'rb') as memory:
        try:
            memory.seek(start)
            data = memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
    for found in re.findall(rb'the-expected-[a-z]+-[0-9]+', data):
        print(found.decode())
"""
    result = judge(code)
    assert not any(result["passing"])
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


@pytest.mark.parametrize("fd", [0, 1, 2, 3, 4, 5, 6, 7])
def test_a_forged_answer_of_the_harness_is_not_believed(judge, fd):
    done = (
        protocol.DONE
        + protocol.FACTS.pack(protocol.WHY.index(""), protocol.RUNNING, 0.01, 0.0, 0.0)
        + bytes(protocol.USAGE.size)
    )
    code = f"""
import os
for data in ({done!r}, b'{{"passing": [true]}}'):
    try:
        os.write({fd}, data)
    except OSError:
        pass
"""
    assert judge(code)["passing"] == [False]


def test_os_exit_after_partial_output_is_judged_by_what_came_out(judge):
    code = "import os, sys\nprint('1', flush=True)\nprint('2')\nos._exit(0)"
    assert statuses(judge(code, outputs=["1\n2"])) == ["wrong_answer"]
    assert statuses(judge(code, outputs=["1"])) == ["passed"]


@pytest.mark.parametrize(
    "ending", ["sys.exit(3)", "os._exit(3)", "raise ValueError", "1 / 0", "exit(1)", "quit('no')"]
)
def test_right_output_with_a_bad_exit_status_fails(judge, ending):
    assert statuses(judge(f"import os, sys\nprint('1', flush=True)\n{ending}", outputs=["1"])) == [
        "runtime_error"
    ]


@pytest.mark.parametrize(
    "ending", ["sys.exit()", "exit()", "quit()", "exit(0)", "raise SystemExit", "os._exit(0)"]
)
def test_ending_early_with_status_zero_is_no_error(judge, ending):
    assert statuses(judge(f"import os, sys\nprint('1', flush=True)\n{ending}", outputs=["1"])) == ["passed"]


def test_an_object_equal_to_everything_is_not_compared(judge):
    code = """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return Any()
"""
    assert statuses(judge(code, [[1]], [2], "f")) == ["runtime_error"]


@pytest.mark.parametrize("base", ["str", "int", "float", "list", "dict", "tuple"])
def test_subclasses_that_claim_equality_are_reduced_to_values(judge, base):
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


def test_a_patched_serialiser_only_speaks_for_the_program(judge):
    code = "import json\njson.dumps = lambda *a, **k: '2'\ndef f(x): return 3"
    assert judge(code, [[1]], [4], "f")["passing"] == [False]


def test_printing_a_value_is_not_returning_it(judge):
    assert judge("def f(x):\n    print('2')\n    return 3", [[1]], [2], "f")["passing"] == [False]


def test_leaving_a_function_task_early_is_an_error(judge):
    assert statuses(judge("def f(x):\n    print('2')\n    raise SystemExit", [[1]], [2], "f")) == [
        "runtime_error"
    ]


def test_traces_and_exit_handlers_belong_to_the_program(judge):
    code = """
import atexit, sys
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
atexit.register(print, 'late')
print('early')
"""
    assert judge(code, outputs=["early\nlate"])["passing"] == [True]


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


def test_other_inputs_are_not_in_the_program_s_memory(judge):
    code = """
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
            if re.search(rb'other[-]input', memory.read(end - start)):
                print('found')
        except (OSError, ValueError, OverflowError):
            continue
"""
    result = judge(code, ["other-input", "mine", "mine"], ["", "no", "no"])
    assert statuses(result) in (["wrong_answer", "passed", "passed"], ["runtime_error"] * 3)
