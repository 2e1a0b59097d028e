"""Prompts out of a clone: put together in the ways that Python programs put strings together."""

import json
import textwrap

import pytest

from cobalt.commands.import_prompts import find, main
from cobalt.errors import InputError
from cobalt.prompts import ALL_PASSED_MARKER, FEEDBACK_MARKER, PROBLEM_MARKER, load

RUNNER = f'''
SYSTEM_PROMPT = """You are a test.
Keep four rules."""
DONE = "{ALL_PASSED_MARKER}. Look" + " again."
raise SystemExit("never run")

def messages(row, feedback):
    first = [{{"role": "system", "content": SYSTEM_PROMPT}}, row["first"]]
    no = "Sorry: no code block could be extracted from this."
    if feedback is None:
        return DONE
    return f"It failed.\\n\\n{FEEDBACK_MARKER}\\n{{feedback}}"
'''
PREPARE = f'''
TEMPLATE = """Think. {PROBLEM_MARKER}
{{question}}""".strip()

def wrap(row):
    return TEMPLATE.format(question=row["question"])
'''


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "clone/preproc").mkdir(parents=True)
    (tmp_path / "clone/run_multi_turn_vllm.py").write_text(textwrap.dedent(RUNNER))
    (tmp_path / "clone/preproc/lcb.py").write_text(PREPARE.replace("{question}", "{question}"))
    (tmp_path / "clone/old.py").write_text("print 'python 2'")
    return tmp_path / "clone"


def test_all_texts_are_found(clone, tmp_path, capsys):
    out = tmp_path / "prompts.json"
    assert main([str(clone), "-o", str(out)]) == 0
    prompts = load(str(out))
    assert prompts.sha256 in capsys.readouterr().out
    assert json.loads(out.read_text()) == {
        "system": "You are a test.\nKeep four rules.",
        "instruction": f"Think. {PROBLEM_MARKER}\n{{statement}}",
        "feedback": f"It failed.\n\n{FEEDBACK_MARKER}\n{{feedback}}",
        "all_passed": f"{ALL_PASSED_MARKER}. Look again.",
        "no_code": "Sorry: no code block could be extracted from this.",
    }


def test_concatenation_and_templates(clone):
    runner = clone / "run_multi_turn_vllm.py"
    text = runner.read_text()
    line = next(each for each in text.splitlines() if "It failed" in each)
    for made in (
        f'return "It failed.\\n\\n{FEEDBACK_MARKER}\\n" + feedback',
        f'return "It failed.\\n\\n{FEEDBACK_MARKER}\\n{{}}".format(feedback)',
        f'return "It failed.\\n\\n{FEEDBACK_MARKER}\\n%s" % feedback',
    ):
        runner.write_text(text.replace(line.strip(), made))
        assert find(clone).feedback == f"It failed.\n\n{FEEDBACK_MARKER}\n{{feedback}}"


def test_what_is_missing_or_unclear_is_said(clone, tmp_path):
    (clone / "preproc/lcb.py").unlink()
    with pytest.raises(InputError, match="no text for instruction"):
        find(clone)
    for name, start in (("a", "One"), ("b", "Two")):
        (clone / f"{name}.py").write_text(f'X = "{start} {PROBLEM_MARKER}"\n')
    with pytest.raises(InputError, match=r"several wordings, in a.py:1, b.py:1"):
        find(clone)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no Python files"):
        find(tmp_path / "empty")
    with pytest.raises(InputError, match="is not a folder"):
        main([str(tmp_path / "none")])
