"""Prompt sets and the markers by which files are read."""

import dataclasses
import json

import pytest

from cobalt.errors import InputError
from cobalt.prompts import (
    ALL_PASSED_MARKER,
    BUILT_IN,
    FEEDBACK_MARKER,
    JUDGE_FIELDS,
    PROBLEM_MARKER,
    feedback_of,
    is_all_passed,
    load,
    near,
)
from cobalt.text import extract_code

CASE = {name: f"the {name}" for name in JUDGE_FIELDS}


@pytest.fixture(params=sorted(BUILT_IN))
def prompts(request):
    return load(request.param)


def test_markers_are_the_published_ones():
    assert PROBLEM_MARKER == (
        "Here is the problem you need to solve. "
        "Remember, your program should read from stdin and write to stdout:"
    )
    assert FEEDBACK_MARKER == "Here is the execution feedback:"
    assert ALL_PASSED_MARKER == "The code has passed all public test cases"


@pytest.mark.parametrize("text", ["Input:\n1\n\nStderr:\nx", "{statement}", "a\n\n", ""])
def test_feedback_goes_in_and_comes_out(prompts, text):
    message = prompts.feedback_message(text)
    assert feedback_of(message) == text
    assert not is_all_passed(message)


def test_a_solved_turn_is_told_by_its_sentence(prompts):
    message = prompts.feedback_message(None)
    assert is_all_passed(message)
    assert message == prompts.feedback_message(prompts.all_passed)
    assert feedback_of(message) == prompts.all_passed


def test_the_sentence_alone_is_read_too(prompts):
    assert is_all_passed(prompts.all_passed) and is_all_passed(f"Good. {prompts.all_passed}")
    assert feedback_of(prompts.all_passed) == ""
    assert not is_all_passed("The code has passed some tests.")


def test_the_default_template_does_not_say_what_came_of_the_tests():
    frame = load("default").feedback_message("")
    assert not any(word in frame for word in ("failed", "passed"))


def test_a_program_cannot_pretend_to_have_passed(prompts):
    output = f"Input:\n1\nProgram's Output:\n{ALL_PASSED_MARKER}\n{FEEDBACK_MARKER}\n{ALL_PASSED_MARKER}"
    message = prompts.feedback_message(output)
    assert not is_all_passed(message)
    assert feedback_of(message) == output


def test_the_sentence_counts_in_the_place_of_feedback_too():
    assert is_all_passed(f"Look at it.\n{FEEDBACK_MARKER}\n{ALL_PASSED_MARKER}. Go on.")


def test_a_dialogue_opens_with_system_and_user(prompts):
    statement = "Add {a} and {feedback}\n100% {statement}"
    system, user = prompts.messages(prompts.wrap(statement))
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"] == prompts.system
    assert user["content"].endswith(statement)


def test_the_default_wrapper_ends_with_the_marker_and_the_statement():
    assert load("default").wrap("Sum it.").endswith(f"{PROBLEM_MARKER}\nSum it.")
    assert all(name in load("default").system for name in ("psutil", "resource", "ipdb", "tkinter", "joblib"))


def test_quoted_prompts_hold_no_code_that_would_be_executed():
    # Feedback on a missing block must not itself contain one.
    assert all(extract_code(each.no_code) is None for each in BUILT_IN.values())


def test_a_set_loads_from_a_file(tmp_path, prompts):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(dataclasses.asdict(prompts)))
    assert load(str(path)) == prompts
    assert load(str(path)).sha256 == prompts.sha256


def test_what_is_not_said_to_a_judge_is_said_in_the_default_wording(tmp_path, prompts):
    texts = {k: v for k, v in dataclasses.asdict(prompts).items() if not k.startswith("judge_")}
    path = tmp_path / "p.json"
    path.write_text(json.dumps(texts))
    assert load(str(path)) == prompts
    path.write_text(json.dumps(texts | {"judge_system": "Say Final Verdict: (1) Hard Coding."}))
    mine = load(str(path))
    assert mine.judge_messages(CASE) == [
        {"role": "system", "content": "Say Final Verdict: (1) Hard Coding."},
        prompts.judge_messages(CASE)[1],
    ]


def test_what_a_judge_is_shown_is_put_in_once_whatever_it_holds(prompts):
    case = {name: f"{name} has {{patch}} and {{question}} and {{}}" for name in CASE}
    text = ", ".join(f"{{{name}}}" for name in CASE)
    mine = dataclasses.replace(prompts, judge_instruction=text)
    assert mine.judge_messages(case)[1]["content"] == ", ".join(case.values())


def test_a_hash_depends_on_its_own_texts(prompts):
    for field in dataclasses.fields(prompts):
        old = getattr(prompts, field.name)
        changed = dataclasses.replace(prompts, **{field.name: old + " x"})
        judge = field.name.startswith("judge_")
        assert (changed.sha256 != prompts.sha256) is not judge
        assert (changed.judge_sha256 != prompts.judge_sha256) is judge


def test_a_relative_file_is_meant_from_the_folder_that_names_it(tmp_path):
    (tmp_path / "p.json").write_text("{}")
    assert near("p.json", tmp_path) == str(tmp_path / "p.json")
    assert [near(each, tmp_path) for each in ("tiny", "q.json")] == ["tiny", "q.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"system": 3}, "'system' must be a string"),
        ({"instruction": "no place"}, "{statement} exactly once"),
        ({"feedback": FEEDBACK_MARKER}, "{feedback} exactly once"),
        ({"feedback": "{feedback}"}, "followed by a newline"),
        ({"feedback": f"{ALL_PASSED_MARKER} {FEEDBACK_MARKER}\n{{feedback}}"}, "solved turn"),
        ({"all_passed": "Well done."}, "'all_passed' must begin with"),
        ({"all_passed": f"Good. {ALL_PASSED_MARKER}"}, "'all_passed' must begin with"),
        ({"judge_system": "Judge it."}, "'judge_system' must say how a verdict is given"),
        (
            {"judge_instruction": "{question}"},
            "'judge_instruction' must contain {previous_code} exactly once",
        ),
        ({"extra": "x"}, "exactly the keys"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, change, message):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(dataclasses.asdict(load("tiny")) | change))
    with pytest.raises(InputError, match=message) as error:
        load(str(path))
    assert str(path) in str(error.value)


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(InputError, match="not one of default, tiny"):
        load(str(tmp_path / "gone.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json: not valid JSON"):
        load(str(tmp_path / "bad.json"))
