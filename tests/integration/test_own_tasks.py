"""The tutorial's makers of tasks and of a model, on words of somebody else, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cobalt.engines import connect
from cobalt.engines.base import Sampling
from cobalt.evaluator import LocalEvaluator
from cobalt.rows import read_rows
from cobalt.tasks.own import statement_key

FOLDER = Path(__file__).parents[2] / "examples" / "own_tasks"
FILES = ("lessons", "train", "dev", "heldout")
WORDS = """
statement: "Zwei Zahlen kommen. {first} {then}"
program: |
  a, b = map(int, input().split())
  if a >= 0:
      {first}
  {then}
input: "import random; print(random.randint(0, 99), random.randint(0, 99))"
values: {sign: ["=", "→"]}
parts:
  first:
    - {says: "Füge {k} hinzu.", code: "a += {k}", k: [1, 2], slips: ["a -= {k}"]}
    - {says: [Verdopple die erste., Nimm die erste doppelt.], code: "a *= 2\\nb += 0"}
    - {says: Vertausche sie., code: "a, b = b, a", slips: ["b = a", "raise SystemExit(1)"]}
    - {says: Nimm zweimal die zweite., code: a = b}
  then:
    - {says: Drucke die Summe., code: 'print(f"{sign} {a + b}")'}
    - {says: Drucke die Differenz., code: 'print("{sign}", a - b)'}
    - {says: Drucke {beide}., code: 'print(a, b, sep="{sign}")'}
"""
SIZES = ["--lessons", "20", "--train", "999", "--dev", "2", "--heldout", "8"]


def run(folder: Path, script: str, *given: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, FOLDER / script, *map(str, given)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "words.yaml").write_text(WORDS.replace("Drucke {beide}.", '"Drucke {beide}."'))
    run(folder, "make_tasks.py", "words.yaml", "out", *SIZES)
    return folder


def test_files_share_no_statement_with_what_is_held_out(made: Path) -> None:
    rows = {name: [row for _, row in read_rows(made / "out" / f"{name}.jsonl")] for name in FILES}
    assert [len(rows[name]) for name in FILES] == [20, 22, 2, 8]
    asked = {name: {statement_key(row["question"]) for row in rows[name]} for name in FILES}
    assert not asked["heldout"] & (asked["train"] | asked["dev"] | asked["lessons"])
    assert not asked["dev"] & (asked["train"] | asked["lessons"])
    assert all("programs" in row for row in rows["lessons"])
    assert not any("programs" in row for name in FILES[1:] for row in rows[name])
    assert {(row["difficulty"], *row["slots"]) for row in rows["lessons"]} == {("1 left open", "sign")}
    assert "Drucke {beide}." in json.dumps(rows, ensure_ascii=False)  # a name that nothing has a value for
    with LocalEvaluator(1) as evaluator:
        for row in rows["lessons"][:6]:
            passed = [all(evaluator.evaluate(p, row["test_cases"])["passing"]) for p in row["programs"]]
            assert passed == [True] + [False] * (len(passed) - 1), row


@pytest.mark.slow
def test_a_model_is_made_speaks_and_meets_words_it_does_not_know(made: Path) -> None:
    steps = ["--drill_steps", 2, "--clean_steps", 1, "--noisy_steps", 1]
    run(made, "make_model.py", "out/lessons.jsonl", "-o", "model", *steps)
    engine = connect("transformers", str(made / "model"))
    talk = [{"role": "user", "content": "Grüße ☃ \ud83c naïve 12345 <|im_end|> '''x"}]

    async def ask():
        try:
            return await engine.chat(talk, Sampling(1.0, 1.0, 8, 2, 0))
        finally:
            await engine.aclose()

    assert [0 < each.completion_tokens <= 8 for each in asyncio.run(ask())] == [True, True]
    assert "exists and is not empty" in run(made, "make_model.py", "out/lessons.jsonl", "-o", "model", code=2)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("program:", "programm:", "needs statement, program, input and parts ('program')"),
        ("statement:", "statement: [", "words.yaml: "),
        ("kommen. {first}", "kommen.", "{first}, a part, must stand in statement and program"),
        ("values: {sign:", "values: [sign] #", "needs statement, program, input and parts"),
        ("code: a = b", "kode: a = b", "part 'first', alternative 4: no 'code'"),
        ("code: a = b", "code: 'a = = b'", "not Python"),
        ("import random; print(", "print(1 / 0, ", "'input' fails or prints nothing"),
        ("a, b = map(", "a, b = float(", "0 tasks were found for lessons"),
        ("    - {says: Drucke die Summe", "    # {says: Drucke die Summe", "are too few to hold"),
    ],
)
def test_a_wrong_file_of_words_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in WORDS
    (tmp_path / "words.yaml").write_text(WORDS.replace("Drucke {beide}.", '"{beide}"').replace(old, new))
    assert said in run(tmp_path, "make_tasks.py", "words.yaml", "out", *SIZES, code=2)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        (None, "field 'programs' is missing"),
        (["print(1)"], "field 'programs' must be two or more different texts"),
        (["print(2)", "print(1)"], "the first of 'programs' must be right"),
        (["print(1)", "print(1) "], "two or more different"),
        (["print(1)", "1 / 0"], "none that prints something wrong"),
    ],
)
def test_wrong_lessons_are_named(tmp_path: Path, programs: list[str] | None, said: str) -> None:
    tests = json.dumps({"inputs": [*"abcdef"], "outputs": [*"111111"]})
    row = {"id": 1, "question": "x", "test_cases": tests, "programs": programs}
    (tmp_path / "lessons.jsonl").write_text(json.dumps({k: v for k, v in row.items() if v is not None}))
    told = run(tmp_path, "make_model.py", "lessons.jsonl", "-o", "model", code=2)
    assert said in told and "lessons.jsonl:1" in told
