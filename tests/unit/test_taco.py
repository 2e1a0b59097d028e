"""TACO: filters and their order, splits, reference programs, and the whole door without running any."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt import manifest
from cobalt import rows as rows_module
from cobalt.errors import InfraError, InputError
from cobalt.prompts import DEFAULT, PROBLEM_MARKER
from cobalt.rows import Rows, open_rows
from cobalt.tasks.reference import ReferenceCheck
from cobalt.tasks.own import choose_dev, statement_key
from cobalt.tasks.taco import TacoSettings, build_taco, main
from cobalt.tasks.taco_filters import TacoTask, capped, filter_row, flatten

sys.path.append(str(Path(__file__).parent))
from data_rows import STATEMENT, many_taco, read, taco, write

NO_RUNS = TacoSettings(max_solutions=0, dev_size=2)


def cases(inputs: Any, outputs: Any, **more: Any) -> str:
    return json.dumps({"inputs": inputs, "outputs": outputs} | more)


# --- Filters


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"input_output": cases(["1"] * 7, ["1"] * 7)}, "count"),
        ({"input_output": cases(["1"] * 7, ["1"] * 9)}, "count"),
        ({"input_output": cases("1" * 7, "1" * 7)}, "count"),
        ({"input_output": cases("1" * 8, "1" * 8)}, "shape"),
        ({"input_output": cases(["1"] * 8, ["1"] * 9)}, "shape"),
        ({"input_output": cases({str(i): 1 for i in range(8)}, ["1"] * 8)}, "shape"),
        ({"input_output": cases(["1"] * 8, None)}, "shape"),
        ({"input_output": cases(["1"] * 8, ["1"] * 7 + [1])}, "type"),
        ({"input_output": cases(["1"] * 7 + [None], ["1"] * 8)}, "type"),
        ({"input_output": cases(["1"] * 8, ["1"] * 7 + [7]).replace("7]", "7" * 9000 + "]")}, "type"),
        ({"question": STATEMENT + "See the IMAGEs."}, "images"),
        ({"question": STATEMENT + "\n![](x.png)"}, "images"),
        ({"question": "a" * 99 + "!" * 50}, "length"),
        # The first rule that holds is the one that counts.
        ({"question": "image", "input_output": cases(["1"] * 8, [1] * 8)}, "type"),
        ({"question": "image"}, "images"),
    ],
)
def test_rules(change: dict[str, Any], rule: str) -> None:
    found = filter_row(taco(**change), "x")
    assert found == rule


@pytest.mark.parametrize("question", ["a" * 100, STATEMENT + "![](x.png)", STATEMENT + "imagine"])
def test_what_stays(question: str) -> None:
    assert isinstance(filter_row(taco(question=question), "x"), TacoTask)


def test_lists_are_flattened() -> None:
    assert flatten(["3", "1 2"]) == "3 1 2"
    assert flatten([1, [2, 3], None, "x"]) == "1 [2, 3] None x"
    assert flatten("as it is") == "as it is"
    row = taco(input_output=cases([["3", "1 2 3"]] * 8, [["6"]] * 8))
    found = filter_row(row, "x")
    assert isinstance(found, TacoTask)
    assert found.tests.inputs == ["3 1 2 3"] * 8 and found.tests.outputs == ["6"] * 8


def test_numbers_of_any_length() -> None:
    digits = "7" * 9000
    text = cases(["1"] * 8, [["@"]] * 8).replace('"@"', digits)
    found = filter_row(taco(input_output=text), "x")
    assert isinstance(found, TacoTask) and found.tests.outputs == [digits] * 8


def test_cap_keeps_the_shortest_five_then_the_longest_fifteen() -> None:
    assert capped([1] * 20) == list(range(20))
    lengths = list(range(100, 130))
    assert capped(lengths) == [4, 3, 2, 1, 0, *range(29, 14, -1)]
    # Equal lengths keep their order, because the sort is stable.
    assert capped([5] * 21) == [16, 17, 18, 19, 20, *range(15)]


@given(st.lists(st.integers(0, 5), min_size=21, max_size=60))
def test_cap_is_the_published_slice(lengths: list[int]) -> None:
    ordered = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    assert capped(lengths) == ordered[-5:] + ordered[:15]


# --- Functions

CALLS = [[[i], 1] for i in range(8)]
FUNCTION = {"input_output": cases(CALLS, list(range(8)), fn_name="f"), "source": "leetcode"}


def test_function_tasks() -> None:
    flat = taco(input_output=cases(CALLS, [[i] for i in range(8)], fn_name="f"))
    found = filter_row(flat, "x")
    assert isinstance(found, TacoTask)
    assert (found.fn_name, found.tests.fn_name) == ("f", None)
    assert found.tests.inputs[3] == "[3] 1" and found.tests.outputs[3] == "3"
    assert found.calls is not None and found.calls.inputs[3] == [[3], 1]
    assert filter_row(flat, "x", "drop") == "functional"

    # Values are no texts: dropped as published, kept as calls.
    assert filter_row(taco(**FUNCTION), "x") == "type"
    called = filter_row(taco(**FUNCTION), "x", "call")
    assert isinstance(called, TacoTask)
    assert called.tests.to_mapping() == {"inputs": CALLS, "outputs": list(range(8)), "fn_name": "f"}
    assert called.prefix == "Solution()."


class Judge:
    """Says that programs of which the text is in `right` pass."""

    name, isolation = "fake", "none"

    def __init__(self, *right: str, status: str = "ok") -> None:
        self.right, self.status = right, status
        self.seen: list[tuple[str, Any]] = []

    async def aevaluate(self, code: str, cases: Any, *, rule: Any) -> Any:
        assert rule.stop_on_first_failure
        self.seen.append((code, cases.fn_name))
        passed = code in self.right
        return {"passing": [True, passed], "status": self.status, "feedback": ["", ""]}


def check(row: dict[str, Any], judge: Judge, limit: int = 16, seed: int = 42) -> dict[str, Any]:
    found = filter_row(row, "x")
    assert isinstance(found, TacoTask)
    return asyncio.run(ReferenceCheck(judge, seed, limit)(found))  # type: ignore[arg-type]


def test_reference_programs() -> None:
    programs = [f"program {i}" for i in range(40)]
    row = taco(solutions=programs)
    never, right = Judge(), Judge("program 7")
    assert check(row, never) == {"id": "t", "verified": False, "tried": 16}
    assert len({code for code, _ in never.seen}) == 16
    assert check(taco(solutions=[]), never) == {"id": "t", "verified": None, "tried": 0}
    found = check(row, right, limit=40)
    assert (found["verified"], found["solution"], found["way"]) == (True, 7, "stdin")
    assert found["tried"] == len(right.seen) and right.seen[-1][0] == "program 7"  # stops there
    # The order is that of the task and the seed, whatever else runs.
    orders = [[code for code, _ in judge.seen] for judge in (Judge(), Judge(), Judge())]
    for judge_order, (task_id, seed) in zip(orders, (("a", 1), ("a", 1), ("b", 1)), strict=True):
        judge = Judge()
        check(taco(task_id, solutions=programs), judge, seed=seed)
        judge_order += [code for code, _ in judge.seen]
    assert orders[0] == orders[1] != orders[2]


def test_reference_functions_are_called_then_fed_words() -> None:
    row = taco(
        input_output=cases([["1", "2"]] * 8, [["3"]] * 8, fn_name="f"), solutions=["code"], source="leetcode"
    )
    harness = "code\nprint(Solution().f(*input().split()))"
    judge = Judge(harness)
    assert check(row, judge)["way"] == "split"
    assert judge.seen == [("code", "f"), (harness, None)]
    assert check(row, Judge("code"))["way"] == "call"


def test_faults_are_no_verdicts() -> None:
    with pytest.raises(InfraError, match="task 't'"):
        check(taco(), Judge(status="infra_error"))


# --- Splits


def test_statement_key() -> None:
    assert statement_key("Add  two\nnumbers!") == statement_key("add two numbers")
    assert statement_key("add 2 numbers") != statement_key("add 3 numbers")
    assert statement_key("+-") != statement_key("*/")


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 30), st.integers(0, 5))
def test_dev_split(groups: list[int], size: int, seed: int) -> None:
    keys = [bytes([g]) for g in groups]
    dev = choose_dev(keys, size, seed)
    taken = sum(key in dev for key in keys)
    assert taken <= min(size, len(keys) // 2)
    assert choose_dev(reversed(keys), size, seed) == dev
    if len(set(keys)) == len(keys):
        assert taken == min(size, len(keys) // 2)


# --- The door, without running programs


def test_rows_written(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [taco(i, 30) for i in range(6)])
    summary = build_taco(source, tmp_path / "out.jsonl", NO_RUNS)
    rows = read(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == list(range(6))
    row = rows[2]
    assert list(row) == [
        *("id", "difficulty", "question", "instruction", "test_cases"),
        *("public_test_cases", "hidden_test_cases", "verified"),
    ]
    assert row["instruction"] == DEFAULT.wrap(taco(2)["question"])
    assert row["instruction"].endswith(PROBLEM_MARKER + "\n" + taco(2)["question"])
    every, public, hidden = (json.loads(row[f"{part}test_cases"]) for part in ("", "public_", "hidden_"))
    assert (len(every["inputs"]), len(public["inputs"]), len(hidden["inputs"])) == (20, 4, 16)
    assert every == {name: public[name] + hidden[name] for name in every}
    assert row["verified"] is None

    train, dev = read(tmp_path / "out_train.jsonl"), read(tmp_path / "out_dev.jsonl")
    assert len(dev) == 2 and sorted(r["id"] for r in train + dev) == list(range(6))
    assert summary.splits == {"train": 4, "dev": 2}
    manifest = json.loads((tmp_path / "out_dev.jsonl.manifest.json").read_text())
    assert manifest["settings"]["public_rule"] and manifest["settings"]["dev_rule"]
    assert manifest["counts"]["funnel"]["rows_out"] == 6


def test_funnel(tmp_path: Path) -> None:
    rows = many_taco(200)
    source = write(tmp_path / "in.jsonl", rows)
    summary = build_taco(source, tmp_path / "out.jsonl", NO_RUNS)
    expected = dict.fromkeys(summary.dropped, 0)
    for row in rows:
        found = filter_row(row, "x")
        if isinstance(found, str):
            expected[found] += 1
    assert summary.dropped == expected and expected["count"] and expected["images"]
    assert summary.rows_in == 200 == summary.rows_out + sum(expected.values())
    assert f"  images{-expected['images']:>13}" in "\n".join(summary.funnel())
    # Statements that occur more than once are all in train or all in dev.
    assert summary.duplicates > 3
    texts = [
        {statement_key(r["question"]) for r in read(tmp_path / f"out_{s}.jsonl")} for s in ("train", "dev")
    ]
    assert not texts[0] & texts[1]


def test_the_input_is_read_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_rows(write(tmp_path / "in.jsonl", [taco(i) for i in range(9)]))
    passes: list[str] = []

    def raw(self: Rows) -> Any:
        passes.append("read")
        return whole(self)

    def hashed(path: Any) -> str:
        passes.append("hashed")
        return sha256(path)

    whole, sha256 = Rows.raw, rows_module.file_sha256
    monkeypatch.setattr(Rows, "raw", raw)
    for module in (rows_module, manifest):
        monkeypatch.setattr(module, "file_sha256", hashed)
    summary = build_taco(source, tmp_path / "out.jsonl", evaluator=Judge())  # type: ignore[arg-type]
    assert (summary.rows_out, summary.verified["false"]) == (9, 9)
    assert sorted(passes) == ["hashed", "read"]


def test_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", many_taco(60))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_taco(
            source, tmp_path / name / "out.jsonl", TacoSettings(max_solutions=0, dev_size=9, seed=seed)
        )
    for file in ("out.jsonl", "out_train.jsonl", "out_dev.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a/out_dev.jsonl").read_bytes() != (tmp_path / "c/out_dev.jsonl").read_bytes()


def test_calls_tell_the_model_what_to_define(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [taco(1, **FUNCTION, starter_code="def f(a, b):\n"), taco(2)])
    build_taco(source, tmp_path / "out.jsonl", TacoSettings(max_solutions=0, functional="call"))
    function, program = read(tmp_path / "out.jsonl")
    assert function["fn_name"] == "f" and json.loads(function["hidden_test_cases"])["fn_name"] == "f"
    assert "```python\ndef f(a, b):\n```" in function["instruction"]
    assert "fn_name" not in program and "Define" not in program["instruction"]


def test_overlap_report(tmp_path: Path) -> None:
    shared = "one two three four five six seven eight nine ten eleven twelve thirteen"
    source = write(
        tmp_path / "in.jsonl",
        [taco(1, question=f"{STATEMENT} {shared.upper()}, and so on"), taco(2, question="other words " * 20)],
    )
    problems = write(
        tmp_path / "lcb.jsonl",
        [
            {"question_id": "p1", "question_content": f"Now: {shared}."},
            {"id": "p2", "instruction": f"{STATEMENT}{PROBLEM_MARKER}\nnothing in common with the others"},
        ],
    )
    summary = build_taco(source, tmp_path / "out.jsonl", NO_RUNS, problems=open_rows(problems))
    (row,) = read(tmp_path / "out.jsonl.overlap.jsonl")
    assert (row["id"], row["problem"], row["shared"], row["share_of_problem"]) == (1, "p1", 1, 0.5)
    assert summary.overlapping == 1


# --- Bad input

BAD = [
    ({"input_output": "{"}, "field 'input_output': not valid JSON"),
    ({"input_output": "[]"}, "field 'input_output' must hold an object"),
    ({"input_output": '{"outputs": []}'}, "field 'input_output': 'inputs' is missing"),
    ({"input_output": 3}, "field 'input_output' must be a string or an object"),
    ({"question": None}, "field 'question' must be a string, got null"),
    ({"difficulty": 3}, "field 'difficulty' must be a string"),
    ({"solutions": [1]}, "field 'solutions' must be a list of programs"),
    ({"id": ""}, "'id' must be a non-empty string"),
    ({"id": "first"}, "'id' 'first' occurs twice"),
    ({"input_output": cases(["1"] * 8, ["1"] * 8, fn_name="f(")}, "'fn_name' must be a name"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_rows(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [taco("first"), taco("second", **change), taco("third")])
    out = tmp_path / "out.jsonl"
    out.write_text("as it was")
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message.replace('(', '.')}.*--on_bad_row skip"):
        build_taco(source, out, NO_RUNS)
    assert out.read_text() == "as it was" and len(list(tmp_path.iterdir())) == 2

    summary = build_taco(source, out, NO_RUNS, on_bad_row="skip")
    assert [row["id"] for row in read(out)] == ["first", "third"]
    (reject,) = read(tmp_path / "out.jsonl.rejects.jsonl")
    assert reject["where"] == f"{source}:2" and message in reject["error"]
    assert (summary.rows_in, summary.bad_rows) == (3, 1)


def test_lines_that_are_no_rows(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    good = json.dumps(taco()).encode()
    source.write_bytes(b"\n".join([good, b"[1]", b'{"id": "\xff"}', b'{"id": 1', b""]))
    build_taco(source, tmp_path / "out.jsonl", NO_RUNS, on_bad_row="skip")
    assert [each["where"].rpartition(":")[2] for each in read(tmp_path / "out.jsonl.rejects.jsonl")] == [
        "2",
        "3",
        "4",
    ]
    # Once all is well the list goes.
    source.write_bytes(good)
    build_taco(source, tmp_path / "out.jsonl", NO_RUNS, on_bad_row="skip")
    assert not (tmp_path / "out.jsonl.rejects.jsonl").exists()
    source.write_bytes(b"\n\n")
    with pytest.raises(InputError, match="holds no rows"):
        build_taco(source, tmp_path / "out.jsonl", NO_RUNS)
    source.write_bytes(b"{}\n")
    with pytest.raises(InputError, match=r"no row that can be used; the first: .*'id'"):
        build_taco(source, tmp_path / "out.jsonl", NO_RUNS, on_bad_row="skip")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num_public", "8"], "--num_public must be from 1 to 7"),
        (["--num_public", "0"], "--num_public must be from 1 to 7"),
        (["--dev_size", "-1"], "must not be negative"),
        (["--require_verified", "--max_solutions", "0"], "--require_verified needs"),
        (["--max_solutions", "0", "-i", "none.jsonl"], "cannot read none.jsonl"),
    ],
)
def test_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [taco()])
    with pytest.raises(InputError, match=message):
        main(["-i", str(source), "-o", str(tmp_path / "out"), *flags])


def test_the_input_is_not_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "x_train.jsonl", [taco()])
    with pytest.raises(InputError, match="is the input file"):
        build_taco(source, tmp_path / "x.jsonl", NO_RUNS)


def test_nothing_left(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [taco(question="short")])
    summary = build_taco(source, tmp_path / "out.jsonl", NO_RUNS)
    assert summary.warnings == ["no task is left: the files are empty"]
    assert (tmp_path / "out_train.jsonl").read_bytes() == b""


def test_small_sets_keep_a_train_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.jsonl", [taco(i) for i in range(5)])
    assert main(["-i", str(source), "-o", str(tmp_path / "out.jsonl"), "--max_solutions", "0"]) == 0
    assert "splits: 3 train, 2 dev" in capsys.readouterr().out
    assert random.Random(0)  # the global generator is not used
