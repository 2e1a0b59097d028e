"""Comparison of runs: figures by hand, refusals that say why, and the command line."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from rollout_tools import rated

from cobalt.errors import InputError
from cobalt.evaluation import compare as command
from cobalt.evaluation.compare import compare
from cobalt.evaluation.evaluated_rows import EvaluatedRun, named_paths
from cobalt.output import write_jsonl
from cobalt.stats import (
    RESAMPLES,
    detectable_difference,
    holm,
    paired_bootstrap,
    paired_permutation,
    t_quantile,
)

TESTS = json.dumps({"inputs": ["1"], "outputs": ["1"]})


def evaluated(path, rates, **more):
    return rated(path, rates, **{"hidden_test_cases": TESTS} | more)


OLD = {"a": [[0, 0], [0, 1]], "b": [[0, 0], [0, 0]], "c": [[1, 1], [1, 0]], "d": [[0, 0], [0.5, 0.5]]}
NEW = {"a": [[0, 1], [0, 1]], "b": [[0, 1], [0, 0]], "c": [[1, 1], [1, 1]], "d": [[0, 0], [0, 0]]}
# As many as there must be for more than the difference: six with the same gain, six without one.
OLD |= {f"e{number}": [[0, 0], [0, 0]] for number in range(8)}
NEW |= {f"e{number}": [[0, int(number < 3)], [0, 0]] for number in range(8)}


@pytest.fixture
def runs(tmp_path):
    groups = {key: key for key in OLD} | {"a": "g", "b": "g"}
    return [
        EvaluatedRun.read(name, evaluated(tmp_path / f"{name}.jsonl", table, group=groups))
        for name, table in (("old", OLD), ("new", NEW))
    ]


def test_every_figure_by_hand(runs):
    found = compare(runs)
    first, last = found["comparisons"]
    # No task differs: the difference is not known to be 0, and how it varies is not known at all.
    assert (first["points"], first["p"], first["se"], first["detectable_points"]) == (0.0, 1.0, None, None)
    assert first["ci95"][0] == pytest.approx(-first["ci95"][1], abs=1) and 10 < first["ci95"][1] < 40
    assert (last["a"], last["b"], last["turn"], last["n"]) == ("old", "new", 1, 12)
    assert last["pass_at_1"] == [1 / 12, 4 / 12]
    assert (last["better"], last["worse"], last["equal"]) == (6, 0, 6)
    # Six differences of .5: all must keep their sign, or all lose it: 2 of 64 assignments.
    assert last["points"] == pytest.approx(25) and last["p"] == 2 / 64
    # By group the sums are 1 and four times .5.
    assert last["p_group"] == 2 / 32
    # Two tests each: p 1 and 2/64 by task, 1 and 2/32 by group.
    assert [row["p_holm"] for row in found["comparisons"]] == [1.0, 4 / 64]
    assert [row["p_group_holm"] for row in found["comparisons"]] == [1.0, 4 / 32]
    assert last["se"] == pytest.approx(100 * np.std([0.5] * 6 + [0] * 6, ddof=1) / math.sqrt(12))
    quantiles = 2.200985160 + 0.875529978  # t(.975) and t(.8) with 11 degrees of freedom
    assert last["detectable_points"] == pytest.approx(quantiles * last["se"], rel=1e-6)
    assert (found["tasks"], found["groups"], found["tests"]) == (12, 11, 2)
    ends = last["ci95"]
    last = compare(runs[::-1])["comparisons"][1]  # the other way round it is worse by as much
    assert (last["points"], last["pass_at_1"]) == (pytest.approx(-25), [4 / 12, 1 / 12])
    assert (last["better"], last["worse"], last["equal"]) == (0, 6, 6)
    assert last["ci95"] == pytest.approx([-ends[1], -ends[0]])


def test_all_against_the_first_and_chosen_turns(runs):
    third = EvaluatedRun("third", runs[0].path, runs[1].outcomes)
    names = [(row["a"], row["b"]) for row in compare([*runs, third], turns=[1])["comparisons"]]
    assert names == [("old", "new"), ("old", "third")]
    every = compare([*runs, third], turns=[1], all_pairs=True, resamples=100, permutations=50)
    assert [(row["a"], row["b"]) for row in every["comparisons"]] == [*names, ("new", "third")]
    assert (every["tests"], every["resamples"], every["permutations"]) == (3, 100, 50)
    for turn in (2, -1):
        with pytest.raises(InputError, match=f"turn {turn + 1} is not in all runs: they have turns 1 to 2"):
            compare(runs, turns=[turn])
    with pytest.raises(InputError, match=r"^a comparison needs at least two runs$"):
        compare(runs[:1])


def test_programs_without_a_verdict_are_masked_and_counted(tmp_path, runs):
    masked = NEW | {"a": [[0, None], [0, None]], "b": [[0, 1], [0, None]]}  # of d there is nothing at all
    masked["e0"] = [[0, None], [0, None]]
    status = {key: [["ok", "infra_error" if s[1] is None else "ok"] for s in masked[key]] for key in masked}
    new = EvaluatedRun.read("new", evaluated(tmp_path / "m.jsonl", masked, exec_status=status))
    found = compare([runs[0], new])
    last = found["comparisons"][1]
    assert (last["n"], last["left_out"]) == (10, 2)
    assert last["pass_at_1"] == [pytest.approx(0.5 / 10), pytest.approx(3 / 10)]
    assert "5 programs have no verdict (masked)" in found["notes"]


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda r: [x for x in r if x["id"] != "a"], r"not about the same tasks: 1 only in old \('a'\); 11"),
        (lambda r: [*r, r[0] | {"id": "e"}], r"1 only in new \('e'\); 12 in both"),
        (
            lambda r: [r[0] | {"hidden_test_cases": '{"inputs": ["2"], "outputs": ["1"]}'}, *r[1:]],
            r"same ids but other hidden tests in 1 of 12 tasks \('a'\)",
        ),
        (lambda r: [x | {"question": "another"} for x in r], "other statements in 12 of 12 tasks"),
    ],
)
def test_runs_that_differ_are_refused_and_told_how(tmp_path, change, says):
    old = evaluated(tmp_path / "old.jsonl", OLD, question="one")
    write_jsonl(tmp_path / "new.jsonl", change([json.loads(line) for line in old.open()]))
    with pytest.raises(InputError, match=says):
        compare([EvaluatedRun.read("old", old), EvaluatedRun.read("new", tmp_path / "new.jsonl")])


def test_formatting_of_tests_does_not_matter_and_other_sizes_are_noted(tmp_path, runs):
    short = {k: [s[:1] for s in v[:1]] for k, v in NEW.items()}
    spaced = evaluated(tmp_path / "s.jsonl", short, hidden_test_cases=TESTS.replace(": ", ":"))
    found = compare([runs[0], EvaluatedRun.read("short", spaced)])
    assert found["turns"] == [0]
    assert found["notes"] == ["old has 2 turns, short 1", "old has 2 samples per task, short 1"]


def test_the_command(tmp_path, capsys):
    old, new = (evaluated(tmp_path / f"{n}_eval.jsonl", t) for n, t in (("old", OLD), ("new", NEW)))
    assert command.main([str(old), f"Ours={new}", "-o", str(tmp_path / "c.json"), "--turns", "-1"]) == 0
    said = capsys.readouterr().out
    assert "Ours against old" in said and "+25.0 [" in said and "6/0/6" in said
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["turns"] == [1] and found["comparisons"][0]["p_holm"] == 2 / 64
    with pytest.raises(InputError, match="at least two"):
        command.main([str(old)])
    names = [name for name, _ in named_paths(["a/x_eval.jsonl", "b/x_eval.jsonl", "n=b/x.jsonl"])]
    assert names == ["a/x", "b/x", "n"]
    with pytest.raises(InputError, match="'n' is given twice"):
        named_paths(["n=a", "n=b"])


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"id": 1, "question": "?"}\n', r":1: field 'all_pass_rates' is missing.*eval_multi_turn"),
        ('{"id": 1, "all_pass_rates": [[1]]}\n{"id": 2, "all_pa', r":2: not a JSON object.*cut off"),
        ('{"id": 1, "all_pass_rates": [[1]]}\n{"id": 1, "all_pass_rates": [[1]]}\n', "occurs twice"),
        ("", "there are no evaluated rows"),
    ],
)
def test_files_that_cannot_be_compared(tmp_path, text, says):
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        EvaluatedRun.read("x", path)


def in_memory(name, rates, groups=None):
    """A run that was never a file: rates [sample][turn] by id."""
    run = EvaluatedRun(name, Path(f"{name}.jsonl"))
    for key, table in rates.items():
        run.add({"id": key, "all_pass_rates": table} | ({"group": groups[key]} if groups else {}), name)
    return run


def test_everything_that_was_asked_is_recorded(runs):
    found = compare(runs, turns=[1], seed=3)
    del found["comparisons"]
    assert found == {
        "schema": 1,
        "runs": [{"name": run.name, "path": str(run.path), "samples": 2} for run in runs],
        "tasks": 12, "groups": 11, "turns": [1], "tests": 1, "power": 0.8,
        "seed": 3, "resamples": RESAMPLES, "permutations": 20_000, "notes": [],
    }  # fmt: skip


def test_settings_reach_the_statistics_by_task_and_by_group():
    rng = np.random.default_rng(1)
    groups = {key: key % 30 for key in range(90)}
    shares = rng.integers(0, 2, size=(2, 90, 4))
    both = [
        in_memory(n, {k: shares[i, k][:, None].tolist() for k in groups}, groups)
        for i, n in ((0, "x"), (1, "y"))
    ]
    row = compare(both, seed=7)["comparisons"][0]
    x, y = shares.mean(axis=2)
    assert (row["better"], row["worse"], row["equal"]) == ((y > x).sum(), (y < x).sum(), (y == x).sum())
    for suffix, labels, clusters in (("", None, 90), ("_group", list(groups.values()), 30)):
        interval = paired_bootstrap(y, x, labels, n=RESAMPLES, seed=7)
        assert row[f"se{suffix}"] == 100 * interval.se
        assert row[f"ci95{suffix}"] == [100 * interval.lo, 100 * interval.hi]
        assert row[f"p{suffix}"] == paired_permutation(y, x, labels, n=20_000, seed=7)
        assert row[f"detectable_points{suffix}"] == 100 * detectable_difference(interval.se, clusters)
    assert compare(both) == compare(both, seed=0) != compare(both, seed=1)


@pytest.mark.parametrize("tasks", [1, 3, 5, 9, 10, 20])
def test_few_tasks_have_a_difference_and_nothing_else(tasks, capsys):
    found = compare([in_memory(n, {k: [[r]] for k in range(tasks)}) for n, r in (("x", 0), ("y", 1))])
    row = found["comparisons"][0]
    command.show(found)
    said = capsys.readouterr().out
    assert (row["points"], row["se"], row["detectable_points"]) == (100.0, None, None)
    if tasks < 10:
        assert (row["ci95"], row["p"]) == ([None, None], None) and "p_holm" not in row
        assert "+100.0 [cannot tell]" in said and said.count("cannot tell") == 4
        assert found["notes"][-1].startswith(f"{tasks} tasks: too few to tell") and "need 10." in said
    else:
        assert 40 < row["ci95"][0] < 100 == row["ci95"][1] and row["p"] == row["p_holm"] < 0.01
        assert said.count("cannot tell") == 1 and "too few" not in said  # detectable: nothing varies


def test_a_turn_without_verdicts_has_no_figures(tmp_path, capsys):
    rates = {key: [[0.0, None]] for key in "abcdefghijk"} | {"l": [[1.0, None]]}
    masked, full = in_memory("x", rates), in_memory("y", {key: [[1.0, 1.0]] for key in rates})
    for pair in ([masked, full], [full, masked]):
        found = compare(pair)
        assert [row["n"] for row in found["comparisons"]] == [12, 0]
        assert found["comparisons"][0]["p_holm"] == found["comparisons"][0]["p"] == 2 / 2**11
        assert found["comparisons"][1] == {
            "a": pair[0].name, "b": pair[1].name, "turn": 1, "n": 0, "left_out": 12,
            "pass_at_1": [None, None], "points": None, "ci95": [None, None], "p": None,
        }  # fmt: skip
        command.show(found)
        assert "n/a" in capsys.readouterr().out


def test_groups_come_from_the_base_and_one_that_is_left_has_no_error():
    groups = {"a": "g", "b": "g", "c": "h"}
    plain = {key: [[1.0]] for key in "abc"}
    without, base = in_memory("x", plain), in_memory("y", plain, groups)
    assert compare([base, without])["groups"] == 2
    found = compare([without, base])
    assert found["groups"] is None and "p_group" not in found["comparisons"][0]
    row = compare([base, in_memory("z", plain | {"c": [[None]]})])["comparisons"][0]
    assert row["se_group"] is row["p_group"] is row["detectable_points_group"] is None
    assert row["ci95_group"] == [None, None] and "p_group_holm" not in row


def test_permutation_p_values_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.random(size=10).round(2), rng.random(size=10).round(2)
    flips = itertools.product([1, -1], repeat=10)
    sums = [abs(np.dot(signs, a - b)) for signs in flips]
    assert paired_permutation(a, b) == pytest.approx(np.mean(np.array(sums) >= abs((a - b).sum()) - 1e-9))
    assert paired_permutation(a, a) == 1.0
    for scale in (1e-6, 1e-3):
        assert paired_permutation(a * scale, b * scale) == paired_permutation(a, b)
    # All assignments of 16 signs are counted, of 17 a sample in which the observed one always is.
    assert paired_permutation(np.ones(16), np.zeros(16)) == 2 / 2**16
    assert paired_permutation(np.ones(17), np.zeros(17), n=100) == 1 / 101
    # More clusters than can be counted: random signs come close to the exact value of a normal sum.
    x = np.concatenate([np.full(60, 1.0), np.full(40, 0.0)])
    assert paired_permutation(x, 1 - x) == pytest.approx(0.0569, abs=0.006)  # binomial, both tails


def test_permutations_drawn_in_blocks_are_as_many_as_asked_for():
    # 1000 clusters: at most 2000 draws fit into a block. The observed sum is 0, so that every draw hits.
    balanced = np.tile([1.0, 0.0], 500)
    assert paired_permutation(balanced, 1 - balanced, n=3000) == 1.0
    assert paired_permutation(np.ones(1000), np.zeros(1000), n=3000) == 1 / 3001


def test_permutation_p_values_are_uniform_where_nothing_differs():
    rng = np.random.default_rng(0)
    hits = sum(paired_permutation(*rng.random((2, 30)), n=400, seed=s) <= 0.05 for s in range(400))
    assert 8 <= hits <= 34


def test_holm_is_the_textbook_procedure():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == holm([0.9, 0.9]) == [1.0, 1.0]
    assert holm([]) == [] and holm([1.0, 0.0]) == [1.0, 0.0]
    with pytest.raises(ValueError, match="p values"):
        holm([1.5])


def test_detectable_difference_has_the_power_it_says():
    se, n = 0.1, 40
    found = detectable_difference(se, n)
    assert found == pytest.approx((t_quantile(0.975, n - 1) + t_quantile(0.8, n - 1)) * se)
    rng = np.random.default_rng(0)
    values = rng.normal(found, se * np.sqrt(n), size=(4000, n))
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / np.sqrt(n))
    assert (t > t_quantile(0.975, n - 1)).mean() == pytest.approx(0.8, abs=0.02)
    assert np.isnan(detectable_difference(0.1, 1)) and np.isnan(detectable_difference(math.nan, 40))
    assert np.isnan(detectable_difference(0.1, 9)) and np.isnan(detectable_difference(0.0, 40))
    assert detectable_difference(0.1, 10) == pytest.approx(0.1 * (2.262157163 + 0.883403860))
