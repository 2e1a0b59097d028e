"""Perturbed tests: the published rule as properties, and the door."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.evaluator.output import Output, encode
from cobalt.evaluator.rule import PUBLISHED
from cobalt.tasks.perturb import main, perturb
from cobalt.testcases import TestCases

sys.path.append(str(Path(__file__).parent))
from data_rows import read, task, write

OUTPUTS = st.lists(st.sampled_from(["1", "2", "3", " 1\n", "2\n", ""]), max_size=9)


def made(outputs: list[Any], seed: int = 0, n_pairs: int = 2) -> tuple[TestCases, TestCases] | str:
    tests = TestCases([f"in {i}" for i in range(len(outputs))], outputs)
    return perturb(tests, random.Random(seed), n_pairs)


@given(OUTPUTS, st.integers(0, 50), st.sampled_from([2, 4]))
def test_properties(outputs: list[str], seed: int, n_pairs: int) -> None:
    found = made(outputs, seed, n_pairs)
    if len({output.strip() for output in outputs}) < n_pairs:
        assert found == f"fewer than {n_pairs} distinct outputs"
        return
    assert not isinstance(found, str)
    swapped, every = found
    assert len(swapped) == n_pairs
    assert (every.inputs[:n_pairs], every.outputs[:n_pairs]) == (swapped.inputs, swapped.outputs)
    assert sorted(every.inputs) == sorted(f"in {i}" for i in range(len(outputs)))
    assert Counter(every.outputs) == Counter(outputs)
    # A program that is right on the true tests fails exactly the exchanged ones.
    truth = {f"in {i}": output for i, output in enumerate(outputs)}
    pairs = zip(every.inputs, every.outputs, strict=True)
    failed = [i for i, o in pairs if not PUBLISHED.accepts(Output(encode(truth[i])), o)]
    assert failed == swapped.inputs
    # First pairs of distinct outputs come before repeated ones.
    kinds = [truth[i].strip() for i in every.inputs]
    firsts = len(set(kinds))
    assert len(set(kinds[:firsts])) == firsts
    assert made(outputs, seed, n_pairs) == found


def test_values_of_functions() -> None:
    tests = TestCases([[1], [2], [3]], [[1], [2], [1]], "f")
    found = perturb(tests, random.Random(0))
    assert not isinstance(found, str)
    assert found[0].fn_name == found[1].fn_name == "f"
    assert sorted(found[0].outputs) == [[1], [2]]


def test_every_pair_may_be_drawn() -> None:
    drawn = set()
    for seed in range(60):
        found = made(["1", "2", "3"], seed)
        assert not isinstance(found, str)
        drawn.add(frozenset(found[0].inputs))
    assert len(drawn) == 3


def test_door(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [task(0, note={"kept": [1]}), task("same", ["1", " 1", "1\n"]), task(2)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    assert main(["--input_file", str(source), "--output_file", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "2 of 3 tasks perturbed" in printed and "1 tasks dropped: fewer than 2 distinct outputs" in printed
    written = read(out)
    for row, before in zip(written, (rows[0], rows[2]), strict=True):
        added = {"modified_test_cases", "perturbed_public_test_cases"}
        assert {name: row[name] for name in row if name not in added} == before
        assert list(row)[-2:] == ["modified_test_cases", "perturbed_public_test_cases"]
        modified, every = (json.loads(row[name]) for name in list(row)[-2:])
        assert len(modified["inputs"]) == 2 and len(every["inputs"]) == 4
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["settings"]["seed"] == 42
    assert manifest["counts"]["dropped"] == {"fewer than 2 distinct outputs": 1}


def test_same_bytes_and_independent_of_the_other_tasks(tmp_path: Path) -> None:
    rows = [task(i) for i in range(20)]
    source = write(tmp_path / "in.jsonl", rows)
    shorter = write(tmp_path / "short.jsonl", rows[7:9])
    for name, file, seed in (("a", source, 1), ("b", source, 1), ("c", source, 2), ("d", shorter, 1)):
        assert main(["-i", str(file), "-o", str(tmp_path / name), "--seed", str(seed)]) == 0
    a, b, c, d = ((tmp_path / name).read_bytes() for name in "abcd")
    assert a == b != c
    assert d.splitlines() == a.splitlines()[7:9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public_test_cases": None}, "field 'public_test_cases' must be a string or an object"),
        ({"public_test_cases": "{"}, "field 'public_test_cases': not valid JSON"),
        ({"public_test_cases": '{"inputs": ["1"], "outputs": []}'}, "1 inputs but 0 outputs"),
        ({"public_test_cases": '{"inputs": [1], "outputs": ["1"]}'}, r"inputs\[0\] must be a string"),
        ({"id": 0}, "'id' 0 occurs twice"),
    ],
)
def test_bad_rows(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [task(0), task(1) | change])
    out = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        main(["-i", str(source), "-o", str(out)])
    assert not out.exists()
    assert main(["-i", str(source), "-o", str(out), "--on_bad_row", "skip"]) == 0
    assert len(read(out)) == len(read(tmp_path / "out.jsonl.rejects.jsonl")) == 1


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [{"id": 1, "test_cases": "{}"}])
    with pytest.raises(InputError, match="field 'public_test_cases' is missing"):
        main(["-i", str(source), "-o", str(tmp_path / "out")])
    with pytest.raises(InputError, match="--n_pairs must be even"):
        main(["-i", str(source), "-o", str(tmp_path / "out"), "--n_pairs", "3"])
    with pytest.raises(InputError, match="is the input file"):
        main(["-i", str(source), "-o", str(source)])
