"""TACO: filters and their order, splits, reference programs, and the whole door without running any."""

import asyncio
import json
from pathlib import Path

import pytest
from data_rows import STATEMENT, many_taco, read, taco, write
from hypothesis import given
from hypothesis import strategies as st

from cobalt import manifest
from cobalt import rows as rows_module
from cobalt.errors import InfraError, InputError
from cobalt.prompts import DEFAULT, PROBLEM_MARKER
from cobalt.rows import Rows, open_rows
from cobalt.tasks.own import statement_key
from cobalt.tasks.taco import TacoSettings, build_taco, choose_dev, main
from cobalt.tasks.taco_rows import TacoTask, capped, filter_row, flatten, try_references

NO_RUNS = TacoSettings(max_solutions=0, dev_size=2)
CALLS = [[[i], 1] for i in range(8)]


def cases(inputs, outputs, **more):
    return json.dumps({"inputs": inputs, "outputs": outputs} | more)


def given_tests(inputs, outputs, **more):
    return {"input_output": cases(inputs, outputs, **more)}


FUNCTION = given_tests(CALLS, list(range(8)), fn_name="f") | {"source": "leetcode"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (given_tests(["1"] * 7, ["1"] * 9), "count"),
        (given_tests("1" * 8, "1" * 8), "shape"),
        (given_tests(["1"] * 8, ["1"] * 9), "shape"),
        (given_tests({str(i): 1 for i in range(8)}, ["1"] * 8), "shape"),
        (given_tests(["1"] * 8, None), "shape"),
        (given_tests(["1"] * 8, ["1"] * 7 + [1]), "type"),
        ({"input_output": cases(["1"] * 8, ["1"] * 7 + [7]).replace("7]", "7" * 9000 + "]")}, "type"),
        (FUNCTION, "type"),  # values are no texts
        ({"question": STATEMENT + "See the IMAGEs."}, "images"),
        ({"question": STATEMENT + "\n![](x.png)"}, "images"),
        ({"question": "a" * 99 + "!" * 50}, "length"),
        # The first rule that holds is the one that counts.
        ({"question": "image"} | given_tests(["1"] * 8, [1] * 8), "type"),
        ({"question": "image"}, "images"),
        ({"question": "a" * 100}, None),
        ({"question": STATEMENT + "![](x.png) imagine"}, None),
    ],
)
def test_rules(change, rule):
    found = filter_row(taco(**change), "x")
    assert found == rule if rule else isinstance(found, TacoTask)


def test_lists_are_flattened_and_numbers_may_be_long():
    assert flatten(["3", "1 2"]) == "3 1 2" and flatten("as it is") == "as it is"
    assert flatten([1, [2, 3], None, "x"]) == "1 [2, 3] None x"
    digits = "7" * 9000
    text = cases([["3", "1 2 3"]] * 8, [["@"]] * 8).replace('"@"', digits)
    found = filter_row(taco(input_output=text), "x")
    assert found.tests.inputs == ["3 1 2 3"] * 8 and found.tests.outputs == [digits] * 8


@given(st.lists(st.integers(0, 5), max_size=60))
def test_cap_keeps_the_shortest_five_then_the_longest_fifteen(lengths):
    ordered = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    whole = list(range(len(lengths)))
    assert capped(lengths) == (whole if len(lengths) <= 20 else ordered[-5:] + ordered[:15])


def test_function_tasks():
    flat = taco(**given_tests(CALLS, [[i] for i in range(8)], fn_name="f"))
    found = filter_row(flat, "x")
    assert (found.fn_name, found.tests.fn_name) == ("f", None)
    assert found.tests.inputs[3] == "[3] 1" and found.tests.outputs[3] == "3"
    assert found.calls.inputs[3] == [[3], 1]
    assert filter_row(flat, "x", "drop") == "functional"
    called = filter_row(taco(**FUNCTION), "x", "call")
    assert called.tests.to_mapping() == {"inputs": CALLS, "outputs": list(range(8)), "fn_name": "f"}
    assert called.prefix == "Solution()."


# --- Reference programs


class Judge:
    """Says that programs of which the text is in `right` pass."""

    name, isolation = "fake", "none"

    def __init__(self, *right, status="ok"):
        self.right, self.status, self.seen = right, status, []

    async def aevaluate(self, code, cases, *, rule):
        assert rule.stop_on_first_failure
        self.seen.append((code, cases.fn_name))
        return {"passing": [True, code in self.right], "status": self.status, "feedback": ["", ""]}


def check(row, judge, limit=16, seed=42):
    return asyncio.run(try_references(filter_row(row, "x"), judge, seed, limit))


def test_reference_programs():
    programs = [f"program {i}" for i in range(40)]
    row, never, right = taco(solutions=programs), Judge(), Judge("program 7")
    assert check(row, never) == {"id": "t", "verified": False, "tried": 16}
    assert len({code for code, _ in never.seen}) == 16
    assert check(taco(solutions=[]), never) == {"id": "t", "verified": None, "tried": 0}
    found = check(row, right, limit=40)
    assert (found["verified"], found["solution"], found["way"]) == (True, 7, "stdin")
    assert found["tried"] == len(right.seen) and right.seen[-1][0] == "program 7"  # stops there
    orders = []  # the order is that of the task and the seed, whatever else runs
    for task_id, seed in (("a", 1), ("a", 1), ("b", 1), ("a", 2)):
        judge = Judge()
        check(taco(task_id, solutions=programs), judge, seed=seed)
        orders.append(tuple(code for code, _ in judge.seen))
    assert orders[0] == orders[1] and len(set(orders)) == 3
    with pytest.raises(InfraError, match="task 't'"):  # faults are no verdicts
        check(taco(), Judge(status="infra_error"))


def test_reference_functions_are_called_then_fed_words():
    row = taco(
        **given_tests([["1", "2"]] * 8, [["3"]] * 8, fn_name="f"), solutions=["code"], source="leetcode"
    )
    harness = "code\nprint(Solution().f(*input().split()))"
    judge = Judge(harness)
    assert check(row, judge)["way"] == "split"
    assert judge.seen == [("code", "f"), (harness, None)]
    assert check(row, Judge("code"))["way"] == "call"


# --- Splits and the door, without running programs


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 30), st.integers(0, 5))
def test_dev_split(groups, size, seed):
    keys = [bytes([g]) for g in groups]
    dev = choose_dev(keys, size, seed)
    taken = sum(key in dev for key in keys)
    assert taken <= min(size, len(keys) // 2)
    assert choose_dev(reversed(keys), size, seed) == dev
    if len(set(keys)) == len(keys):
        assert taken == min(size, len(keys) // 2)


def test_rows_written(tmp_path):
    source = write(tmp_path / "in.jsonl", [taco(i, 30) for i in range(6)])
    summary = build_taco(source, tmp_path / "out.jsonl", NO_RUNS)
    rows = read(tmp_path / "out.jsonl")
    assert [row["id"] for row in rows] == list(range(6))
    row, question = rows[2], taco(2)["question"]
    assert list(row) == [
        *("id", "difficulty", "question", "instruction", "test_cases"),
        *("public_test_cases", "hidden_test_cases", "verified"),
    ]
    assert row["instruction"] == DEFAULT.wrap(question)
    assert row["instruction"].endswith(PROBLEM_MARKER + "\n" + question) and row["verified"] is None
    every, public, hidden = (json.loads(row[f"{part}test_cases"]) for part in ("", "public_", "hidden_"))
    assert (len(every["inputs"]), len(public["inputs"]), len(hidden["inputs"])) == (20, 4, 16)
    assert every == {name: public[name] + hidden[name] for name in every}
    train, dev = read(tmp_path / "out_train.jsonl"), read(tmp_path / "out_dev.jsonl")
    assert len(dev) == 2 and sorted(r["id"] for r in train + dev) == list(range(6))
    assert summary.splits == {"train": 4, "dev": 2}
    manifest = json.loads((tmp_path / "out_dev.jsonl.manifest.json").read_text())
    assert manifest["settings"]["public_rule"] and manifest["settings"]["dev_rule"]
    assert manifest["counts"]["funnel"]["rows_out"] == 6


def test_funnel_seeds_and_doubled_statements(tmp_path):
    rows = many_taco(200)
    source = write(tmp_path / "in.jsonl", rows)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = TacoSettings(max_solutions=0, dev_size=9, seed=seed)
        summary = build_taco(source, tmp_path / name / "out.jsonl", settings)
    expected = dict.fromkeys(summary.dropped, 0)
    for found in (filter_row(row, "x") for row in rows):
        if isinstance(found, str):
            expected[found] += 1
    assert summary.dropped == expected and expected["count"] and expected["images"]
    assert summary.rows_in == 200 == summary.rows_out + sum(expected.values())
    assert f"  images{-expected['images']:>13}" in "\n".join(summary.funnel())
    files = {
        name: [(tmp_path / name / f"out{part}.jsonl").read_bytes() for part in ("", "_train", "_dev")]
        for name in "abc"
    }
    assert files["a"] == files["b"] and files["a"][2] != files["c"][2]
    assert summary.duplicates > 3  # all in train or all in dev
    splits = [read(tmp_path / "c" / f"out_{split}.jsonl") for split in ("train", "dev")]
    train, dev = ({statement_key(row["question"]) for row in split} for split in splits)
    assert not train & dev


def test_the_input_is_read_and_hashed_once(tmp_path, monkeypatch):
    source = open_rows(write(tmp_path / "in.jsonl", [taco(i) for i in range(9)]))
    passes, whole, sha256 = [], Rows.raw, rows_module.file_sha256
    monkeypatch.setattr(Rows, "raw", lambda self: passes.append("read") or whole(self))
    for module in (rows_module, manifest):
        monkeypatch.setattr(module, "file_sha256", lambda path: passes.append("hashed") or sha256(path))
    summary = build_taco(source, tmp_path / "out.jsonl", evaluator=Judge)
    assert (summary.rows_out, summary.verified["false"]) == (9, 9)
    assert sorted(passes) == ["hashed", "read"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_output": "{"}, "field 'input_output': not valid JSON"),
        ({"input_output": "[]"}, "field 'input_output': 'inputs' is missing"),
        ({"input_output": 3}, "field 'input_output' must be a string or an object"),
        ({"question": None}, "field 'question' must be a string, got null"),
        ({"solutions": [1]}, "field 'solutions' must be a list of programs"),
        ({"id": "first"}, "'id' 'first' occurs twice"),
        (given_tests(["1"] * 8, ["1"] * 8, fn_name="f("), "'fn_name' must be a name"),
    ],
)
def test_bad_rows(change, message, tmp_path):
    source = write(tmp_path / "in.jsonl", [taco("first"), taco("second", **change), taco("third")])
    out = tmp_path / "out.jsonl"
    out.write_text("as it was")
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}.*--on_bad_row skip"):
        build_taco(source, out, NO_RUNS)
    assert out.read_text() == "as it was" and len(list(tmp_path.iterdir())) == 2
    summary = build_taco(source, out, NO_RUNS, on_bad_row="skip")
    assert [row["id"] for row in read(out)] == ["first", "third"]
    (reject,) = read(tmp_path / "out.jsonl.rejects.jsonl")
    assert reject["where"] == f"{source}:2" and message in reject["error"]
    assert (summary.rows_in, summary.bad_rows) == (3, 1)
    source = write(tmp_path / "in.jsonl", [taco("first", **change)])
    if "first" not in change.values():
        with pytest.raises(InputError, match=f"no row that can be used; the first: .*{message}"):
            build_taco(source, out, NO_RUNS, on_bad_row="skip")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num_public", "8"], "--num_public must be from 1 to 7"),
        (["--num_public", "0"], "--num_public must be from 1 to 7"),
        (["--dev_size", "-1"], "must not be negative"),
        (["--require_verified", "--max_solutions", "0"], "--require_verified needs"),
        (["--max_solutions", "0", "-i", "none.jsonl"], "cannot read none.jsonl"),
        (["-o", "x.jsonl"], "is the input file"),
    ],
)
def test_what_is_refused(flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("x_train.jsonl"), [taco()])
    with pytest.raises(InputError, match=message):
        main(["-i", "x_train.jsonl", "-o", "out", *flags])


def test_small_sets_keep_a_train_split(tmp_path, capsys):
    source, out = write(tmp_path / "in.jsonl", [taco(i) for i in range(5)]), tmp_path / "out.jsonl"
    assert main(["-i", str(source), "-o", str(out), "--max_solutions", "0"]) == 0
    assert "splits: 3 train, 2 dev" in capsys.readouterr().out
    source = write(tmp_path / "in.jsonl", [taco(question="short")])
    summary = build_taco(source, out, NO_RUNS)
    assert summary.warnings and (tmp_path / "out_train.jsonl").read_bytes() == b""


def test_tasks_that_share_words_with_problems_are_listed(tmp_path: Path, capsys) -> None:
    shared = "one two three four five six seven eight nine ten eleven twelve thirteen"
    source = write(
        tmp_path / "in.jsonl",
        [taco(1, question=f"{STATEMENT} {shared.upper()}, and so on"), taco(2, question="other words " * 20)],
    )
    problems = [
        {"question_id": "p1", "question_content": f"Now: {shared}."},
        {"id": "p2", "instruction": f"{STATEMENT}{PROBLEM_MARKER}\nnothing in common with the others"},
    ]
    out, lcb = tmp_path / "out.jsonl", write(tmp_path / "lcb.jsonl", problems)
    flags = ["-i", str(source), "-o", str(out), "--max_solutions", "0", "--decontaminate", str(lcb)]
    assert main(flags) == 0 and "1 tasks share word sequences" in capsys.readouterr().out
    (row,) = read(tmp_path / "out.jsonl.overlap.jsonl")
    assert (row["id"], row["problem"], row["shared"], row["share_of_problem"]) == (1, "p1", 1, 0.5)
