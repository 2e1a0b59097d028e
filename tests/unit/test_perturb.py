"""Perturbed tests: the published rule as properties, and the door."""

import json
import random
from collections import Counter

import pytest
from data_rows import read, task, write
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.evaluator.checker import PUBLISHED, encode
from cobalt.tasks.perturb import KINDS, conflict, main, off_by_one, one_off, perturb, run_perturbation
from cobalt.testcases import TestCases

OUTPUTS = st.lists(st.sampled_from(["1", "2", "3", " 1\n", "2\n", ""]), max_size=9)
ADDED = ["modified_test_cases", "perturbed_public_test_cases"]


def made(outputs, seed=0):
    return perturb(TestCases([f"in {i}" for i in range(len(outputs))], outputs), random.Random(seed))


@given(OUTPUTS, st.integers(0, 50))
def test_properties(outputs, seed):
    found = made(outputs, seed)
    if len({output.strip() for output in outputs}) < 2:
        assert found == "fewer than 2 distinct outputs"
        return
    swapped, every = found
    assert (every.inputs[:2], every.outputs[:2]) == (swapped.inputs, swapped.outputs) and len(swapped) == 2
    assert sorted(every.inputs) == sorted(f"in {i}" for i in range(len(outputs)))
    assert Counter(every.outputs) == Counter(outputs)
    # A program that is right on the true tests fails exactly the exchanged ones.
    truth = {f"in {i}": output for i, output in enumerate(outputs)}
    assert [i for i, o in every.pairs() if not PUBLISHED.accepts(encode(truth[i]), o)] == swapped.inputs
    # First pairs of distinct outputs come before repeated ones.
    kinds = [truth[i].strip() for i in every.inputs]
    firsts = len(set(kinds))
    assert len(set(kinds[:firsts])) == firsts
    assert made(outputs, seed) == found


def test_values_of_functions_and_every_pair_may_be_drawn():
    swapped, every = perturb(TestCases([[1], [2], [3]], [[1], [2], [1]], "f"), random.Random(0))
    assert swapped.fn_name == every.fn_name == "f" and sorted(swapped.outputs) == [[1], [2]]
    assert len({frozenset(made(["1", "2", "3"], seed)[0].inputs) for seed in range(60)}) == 3


SOME = st.lists(st.sampled_from(["1", "2 b", " -3\n", "yes", "7.50", "a b", ""]), max_size=7)


@given(SOME, st.integers(0, 50), st.integers(1, 3))
def test_one_off_and_conflict_leave_right_programs_the_true_tests(outputs, seed, n_pairs):
    tests = TestCases([f"in {i}" for i in range(len(outputs))], outputs)
    truth = dict(tests.pairs())
    for kind, make in (("one_off", one_off), ("conflict", conflict)):
        found = make(tests, random.Random(seed), n_pairs)
        changeable = len(outputs) if kind == "conflict" and len(set(outputs)) > 1 else sum(map(bool, outputs))
        if isinstance(found, str):
            assert changeable < n_pairs and found.startswith(f"fewer than {n_pairs} outputs")
            continue
        wrong, every = found
        assert changeable >= n_pairs == len(wrong) and every.pairs()[:n_pairs] == wrong.pairs()
        rest = every.pairs()[n_pairs:] + [(i, truth[i]) for i, _ in wrong.pairs() if kind == "one_off"]
        assert sorted(rest) == sorted(tests.pairs())
        # A right program fails the wrong tests and no other.
        failed = [(i, o) for i, o in every.pairs() if not PUBLISHED.accepts(encode(truth[i]), o)]
        assert failed == wrong.pairs() and make(tests, random.Random(seed), n_pairs) == found


@pytest.mark.parametrize(
    ("output", "among"),
    [
        ("Result 12 13", {"Result 11 13", "Result 13 13", "Result 12 12", "Result 12 14"}),
        ("-1\n", {"-2\n", "0\n"}), ("0.50", {"1.50", "-0.50"}), ("9" * 40, {"9" * 39 + "8", "1" + "0" * 40}),
        ("no way\n", {"no\n"}), ("YES", {"YE"}), ("x\n", {"y\n"}), ("x1 y", {"x1"}), (" \n", {None}),
        (5, {4, 6}), (True, {False}), ("", {None}), (None, {None}), ([], {None}),
        ([[], [3]], {"[[], [2]]", "[[], [4]]"}),
    ],
)  # fmt: skip
def test_off_by_one(output, among):
    found = [off_by_one(output, random.Random(seed)) for seed in range(60)]
    assert {str(each) if isinstance(each, list) else each for each in found} == among


def test_door(tmp_path, capsys):
    rows = [task(0, note={"kept": [1]}), task("same", ["1", " 1", "1\n"]), task(2)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    assert main(["--input_file", str(source), "--output_file", str(out)]) == 0
    printed = capsys.readouterr().out
    assert (
        "2 of 3 tasks perturbed (swap)" in printed
        and "1 tasks dropped: fewer than 2 distinct outputs" in printed
    )
    for row, before in zip(read(out), (rows[0], rows[2]), strict=True):
        assert {name: row[name] for name in row if name not in ADDED} == before and list(row)[-2:] == ADDED
        assert [len(json.loads(row[name])["inputs"]) for name in ADDED] == [2, 4]
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["settings"]["seed"] == 42
    assert manifest["counts"]["dropped"] == {"fewer than 2 distinct outputs": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_at_the_door(kind, tmp_path, capsys):
    rows = [task(0, note={"kept": [1]}), task("same", ["", " ", ""]), task(2)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    assert main(["-i", str(source), "-o", str(out), "--kind", kind]) == 0
    assert f"2 of 3 tasks perturbed ({kind})" in capsys.readouterr().out
    for row, before in zip(read(out), (rows[0], rows[2]), strict=True):
        assert {name: row[name] for name in row if name not in ADDED} == before
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["settings"]["kind"] == kind and manifest["settings"]["n_pairs"] == KINDS[kind][1]
    with pytest.raises(InputError, match=r"--kind must be one of swap, one_off, conflict, got 'x'"):
        run_perturbation(source, out, kind="x")
    with pytest.raises(InputError, match="--n_pairs must be"):
        run_perturbation(source, out, kind=kind, n_pairs=0)


def test_same_bytes_and_independent_of_the_other_tasks(tmp_path):
    rows = [task(i) for i in range(20)]
    source, shorter = write(tmp_path / "in.jsonl", rows), write(tmp_path / "short.jsonl", rows[7:9])
    for name, file, seed in (("a", source, 1), ("b", source, 1), ("c", source, 2), ("d", shorter, 1)):
        assert main(["-i", str(file), "-o", str(tmp_path / name), "--seed", str(seed)]) == 0
    a, b, c, d = ((tmp_path / name).read_bytes() for name in "abcd")
    assert a == b != c and d.splitlines() == a.splitlines()[7:9]
    with pytest.raises(InputError, match=r":1: field 'modified_test_cases'.* --again"):
        main(["-i", str(tmp_path / "a"), "-o", str(tmp_path / "e")])
    assert main(["-i", str(tmp_path / "a"), "-o", str(tmp_path / "e"), "--again"]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"public_test_cases": None}, "field 'public_test_cases' must be a string or an object"),
        ({"public_test_cases": "{"}, "field 'public_test_cases': not valid JSON"),
        ({"public_test_cases": '{"inputs": ["1"], "outputs": []}'}, "1 inputs but 0 outputs"),
        ({"id": 0}, "'id' 0 occurs twice"),
    ],
)
def test_bad_rows(change, message, tmp_path):
    source, out = write(tmp_path / "in.jsonl", [task(0), task(1) | change]), tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        main(["-i", str(source), "-o", str(out)])
    assert not out.exists()
    assert main(["-i", str(source), "-o", str(out), "--on_bad_row", "skip"]) == 0
    assert len(read(out)) == len(read(tmp_path / "out.jsonl.rejects.jsonl")) == 1
    with pytest.raises(InputError, match="is the input file"):
        main(["-i", str(source), "-o", str(source)])
