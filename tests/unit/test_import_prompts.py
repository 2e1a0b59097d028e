"""Prompts out of a clone: put together in the ways that Python programs put strings together."""

import json

import pytest
from import_prompts import find, main

from cobalt.errors import InputError
from cobalt.prompts import (
    ALL_PASSED_MARKER,
    DEFAULT,
    FEEDBACK_MARKER,
    PROBLEM_MARKER,
    VERDICT_MARKER,
    load,
)

FEEDBACK = f"It ran.\n\n{FEEDBACK_MARKER}\n"
PASSED = f"{ALL_PASSED_MARKER}. Look again."
NO_CODE = "Sorry: no code block could be extracted from this."
RUNNER = f'''
"""Extracts a code block. {FEEDBACK_MARKER} {{}} {PROBLEM_MARKER} {{}} {ALL_PASSED_MARKER}. Never."""
SYS = """
You are a test.
Keep four rules.
""".strip()
FEEDBACK_TEMPLATE = """It ran.

{FEEDBACK_MARKER}
{{}}"""
raise SystemExit("never run")

def extract(response):
    """The last code block to extract from a response, or None: {ALL_PASSED_MARKER}, or not."""
    print("No code block to extract here")
    return {{"passing": [False], "feedback": ["{NO_CODE}"]}}

def told(results):
    said = ""
    for ok, text in results:
        if not ok:
            said = text
    if said == "":
        said = "{PASSED}"
    return {{"role": "user", "content": FEEDBACK_TEMPLATE.format(said)}}

opening = [{{"role": "system", "content": SYS}}, {{"role": "user", "content": row["instruction"]}}]
'''
CONTEXTS = f'solved = "{ALL_PASSED_MARKER}" in text and "{FEEDBACK_MARKER}" in text'
PREPARE = f'''
INST = """Think of {{{{x}}}}. {PROBLEM_MARKER}
{{}}"""
row["instruction"] = INST.format(row["question"].strip())
'''
JUDGE = f'''
SYS = "Sort it. {VERDICT_MARKER} (1) Hard Coding"
INST = """
Problem {{}}
{{}} | {{}} | {{}}
{{}}""".strip()
told = INST.format(row["question"], row["previous_code"], row["feedback"], row["current_code"], row["patch"])
messages = [{{"role": "system", "content": SYS}}, {{"role": "user", "content": told}}]
'''
PROMPTS = {
    "system": "You are a test.\nKeep four rules.",
    "instruction": f"Think of {{x}}. {PROBLEM_MARKER}\n{{statement}}",
    "feedback": FEEDBACK + "{feedback}",
    "all_passed": PASSED,
    "no_code": NO_CODE,
    "judge_system": f"Sort it. {VERDICT_MARKER} (1) Hard Coding",
    "judge_instruction": "Problem {question}\n{previous_code} | {feedback} | {current_code}\n{patch}",
}


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    write(folder, "run_multi_turn_vllm.py", RUNNER)
    write(folder, "run_multi_turn_litellm.py", RUNNER)
    write(folder, "contexts.py", CONTEXTS)
    write(folder, "preproc/preproc_lcb.py", PREPARE)
    write(folder, "run_llm_judge.py", JUDGE)
    write(folder, "old.py", "print 'python 2'")
    write(folder, "verl/vendored/chat.py", 'm = {"role": "system", "content": "Another one, of a library."}')
    write(folder, ".venv/lib/x.py", f'X = "Mine. {FEEDBACK_MARKER}\\n{{}}"')
    return folder


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def change(folder, old, new, name="run_multi_turn_*.py"):
    for path in folder.glob(name):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def values(folder):
    return {name: text.value for name, text in find(folder).items()}


def test_all_texts_are_found(clone, tmp_path, capsys):
    out = tmp_path / "prompts.json"
    for path in clone.rglob("*.py"):  # line ends of Windows make no difference
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert main([str(clone), "-o", str(out)]) == 0
    prompts, said = load(str(out)), capsys.readouterr().out
    assert prompts.sha256 in said and prompts.judge_sha256 in said and "preproc/preproc_lcb.py:4" in said
    assert json.loads(out.read_text()) == PROMPTS
    (clone / "run_llm_judge.py").unlink()  # without a judge its prompts stay ours
    assert main([str(clone), "-o", str(out)]) == 0
    assert "no judge" in capsys.readouterr().out
    assert load(str(out)).judge_sha256 == DEFAULT.judge_sha256
    assert not any(name.startswith("judge") for name in json.loads(out.read_text()))


TEMPLATE = f'FEEDBACK_TEMPLATE = """It ran.\n\n{FEEDBACK_MARKER}\n{{}}"""'
FILLED = "FEEDBACK_TEMPLATE.format(said)"
QUOTED = FEEDBACK.replace("\n", "\\n")


@pytest.mark.parametrize(
    ("constants", "made"),
    [
        ("", f'"{QUOTED}" + said'),
        ("", f'f"{QUOTED}{{said}}"'),
        ("", f'"{QUOTED}{{}}".format(said)'),
        ("", f'"{QUOTED}%(text)s" % {{"text": said}}'),
        ("", f'"{QUOTED}<text>".replace("<text>", said)'),
        ("", f'"\\n".join(["It ran.", "", "{FEEDBACK_MARKER}", said])'),
        ("", f'textwrap.dedent("""\\\n    It ran.\n\n    {FEEDBACK_MARKER}\n    """) + said'),
        (f'HEAD = "It ran.\\n\\n"\nMARK = "{FEEDBACK_MARKER}"', 'f"{HEAD}{MARK}\\n{said}"'),
        (f'HEAD = "It ran.\\n\\n"\nTAIL = HEAD + "{FEEDBACK_MARKER}\\n%s"', "TAIL % said"),
        (f'class Texts:\n    T = "{QUOTED}{{}}"', "Texts.T.format(said)"),
    ],
)
def test_ways_to_fill_a_template(clone, constants, made):
    change(clone, TEMPLATE, constants)
    change(clone, FILLED, made)
    assert values(clone) == PROMPTS


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("from texts import SYS, TOLD as TEMPLATE", "TEMPLATE"),
        ("import texts\nfrom texts import SYS", "texts.TOLD"),
        ("from lib.texts import SYS, TOLD", "TOLD"),
    ],
)
def test_constants_of_other_files(clone, line, used):
    start, _, rest = RUNNER.partition('SYS = """')
    rest = rest.partition('{}"""\n')[2]
    runner = start + line + "\n" + rest.replace("FEEDBACK_TEMPLATE", used)
    for path in clone.glob("run_multi_turn_*.py"):
        path.write_text(runner)
    name = "lib/texts.py" if "lib." in line else "texts.py"
    texts = f"SYS = {PROMPTS['system']!r}\nTOLD = {PROMPTS['feedback'].replace('{feedback}', '{}')!r}\n"
    write(clone, name, texts)
    write(clone, "other/texts.py", "SYS = 'another'\n")
    assert values(clone) == PROMPTS


RUNNERS, VLLM, JUDGES = "run_multi_turn_*.py", "run_multi_turn_vllm.py", "run_llm_judge.py"
HERE = r"run_multi_turn_\w+\.py:\d+.*"


@pytest.mark.parametrize(
    ("files", "old", "new", "message"),
    [
        (RUNNERS, f"{FEEDBACK_MARKER}\n", "Outcome:\n", HERE + "'feedback' must have 'Here"),
        (RUNNERS, '{}"""\nraise', '"""\nraise', HERE + "'feedback' must have 'Here .* filled in after it"),
        (RUNNERS, f"It ran.\n\n{FEEDBACK_MARKER}", f"{{}}. {FEEDBACK_MARKER}", HERE + "2 values filled in"),
        (RUNNERS, f'"{PASSED}"', f'"Good. {PASSED}"', HERE + "'all_passed' must begin with"),
        (RUNNERS, f'"{PASSED}"', 'f"{ALL} {n}"', "'all_passed' was not found"),
        (RUNNERS, f'["{NO_CODE}"]', f'[f"{NO_CODE} {{n}}"]', HERE + "'no_code' has a value filled in"),
        (VLLM, "four rules", "five rules", rf"'system' has several wordings, in {HERE}, {HERE}"),
        ("preproc/*.py", PROBLEM_MARKER, "Solve:", r"preproc/preproc_lcb\.py:4: .*'instruction' must have"),
        (JUDGES, VERDICT_MARKER, "Verdict:", r"run_llm_judge\.py:8: prompt 'judge_system' must have"),
        (JUDGES, ', row["patch"]', "", r"run_llm_judge\.py:7, .*'judge_instruction' must have question, "),
    ],
)  # fmt: skip
def test_what_is_missing_or_unclear_is_said_and_nothing_is_written(clone, tmp_path, files, old, new, message):
    change(clone, old, new, files)
    out = tmp_path / "prompts.json"
    with pytest.raises(InputError, match=message):
        main([str(clone), "-o", str(out)])
    assert not out.exists()


def test_what_the_source_itself_fills_in_and_braces_that_are_text(clone):
    change(clone, f'said = "{PASSED}"', f'return FEEDBACK_TEMPLATE.format("{PASSED}")')
    change(clone, f'["{NO_CODE}"]', f'[FEEDBACK_TEMPLATE.format("{NO_CODE}")]')
    assert values(clone) == PROMPTS
    change(clone, "You are a test.", "Answer {like} {}.")
    assert values(clone)["system"] == "Answer {like} {}.\nKeep four rules."


def test_a_text_that_is_continued_elsewhere_is_not_taken_for_a_whole(clone):
    change(clone, f'"{NO_CODE}"', "no_code")
    change(clone, "No code block to extract here", "Nothing")
    change(clone, "def told", f'no_code = head()\nno_code += "{NO_CODE}"\ndef told')
    with pytest.raises(InputError, match="'no_code' has a value filled in"):
        find(clone)


def test_files_that_cannot_be_read_are_named_when_something_is_missing(clone, tmp_path):
    for path in clone.glob("run_multi_turn_*.py"):
        path.write_text(RUNNER + "\nprint 1\n")
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (clone, r"not readable by this Python: run_multi_turn_litellm.py \(line"),
        (tmp_path / "empty", "no Python files"),
        (tmp_path / "none", "is not a folder"),
    ):
        with pytest.raises(InputError, match=message):
            main([str(folder)])
