"""Slices and their stops, the reading of trajectories, the golden contexts, and several processes."""

import json
import os
import random
import signal
import time

import pytest
from golden_contexts import BARE, FAILED, GOLDEN, PASSED, WordTokenizer, expected, row, rows
from hypothesis import given
from hypothesis import strategies as st

from cobalt.contexts.build import build_contexts
from cobalt.contexts.slice import slices
from cobalt.contexts.trajectories import read_trajectories
from cobalt.convert import CHUNK, in_order
from cobalt.errors import InfraError, InputError


def dialogue(*passed):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for flag in passed:
        messages.append({"role": "assistant", "content": "a"})
        messages.append({"role": "user", "content": PASSED if flag else FAILED})
    return messages


def cut(conversation, rates, **kw):
    kw.setdefault("count_prompt_tokens", len)
    found, stop = slices(conversation, rates, **kw)
    return [(each.programs, each.prev_best_pass_rate) for each in found], stop


@pytest.mark.parametrize(
    ("passed", "programs"),
    [
        ((True, True, True), [1]),
        ((False, True, True), [1, 2]),
        ((True, False, True), [1, 2, 3]),
        ((True, True, False), [1]),
        ((True, False, False), [1, 2, 3]),
    ],
)
@pytest.mark.parametrize("bare", [(), (3,), (5,), (3, 5, 7)], ids=str)
@pytest.mark.parametrize("policy", ["faithful", "fixed"])
def test_two_passed_feedbacks_in_a_row_end_the_slices(passed, programs, bare, policy):
    conversation = dialogue(*passed)
    for m in bare:
        if conversation[m]["content"] == PASSED:
            conversation[m]["content"] = BARE
    found, stop = cut(conversation, [0.5, 0.5, 0.75], policy=policy)
    assert [n for n, _ in found] == programs
    assert stop == (None if len(programs) == 3 else "all_passed_twice")


@pytest.mark.parametrize(
    ("rates", "faithful", "fixed"),
    [
        ([1.0, 0.0, 1.0], [], [1, 2, 3]),
        ([1.0, 1.0, 0.5], [1, 2, 3], []),
        ([1.0, 1.0, 1.0], [], []),
        ([0.5, 1.0, 1.0], [1, 2, 3], [1]),
        ([0.5, 0.5, 1.0], [1, 2, 3], [1, 2, 3]),
        ([1.0, 0.5, 0.5], [1, 2, 3], [1, 2, 3]),
    ],
)
def test_solved_trajectories(rates, faithful, fixed):
    for policy, programs in (("faithful", faithful), ("fixed", fixed)):
        found, stop = cut(dialogue(False, False, False), rates, policy=policy)
        assert [n for n, _ in found] == programs
        assert stop == (None if len(programs) == 3 else "solved")


def test_limit_is_inclusive_and_stops_have_an_order():
    lengths = {4: 10_000, 6: 10_001, 8: 1}
    failed, rates = dialogue(False, False, False), [0.0, 0.5, 1.0]
    assert cut(failed, rates, count_prompt_tokens=lambda m: lengths[len(m)]) == (
        [(1, 0.0)],
        "prompt_too_long",
    )
    assert cut(failed, rates, max_prompt_tokens=5) == ([(1, 0.0)], "prompt_too_long")

    def never(_):
        raise AssertionError("no need to count")

    over = cut(dialogue(True, True, True), [1.0, 0.0, 1.0], count_prompt_tokens=lambda _: 10**6)
    assert over == ([], "prompt_too_long")
    failed[1]["content"] = failed[3]["content"] = PASSED
    assert cut(failed, [1.0, 0.0, 1.0], count_prompt_tokens=never) == ([], "all_passed_twice")


def test_shorter_and_longer_trajectories():
    assert cut(dialogue(False), [0.5]) == ([(1, 0.5)], "trajectory_ended")
    assert cut(dialogue(False, False), [1.0, 0.5]) == ([(1, 1.0), (2, 1.0)], "trajectory_ended")
    assert cut(dialogue(*[False] * 9), [0.0] * 9) == ([(1, 0.0), (2, 0.0), (3, 0.0)], None)


def test_a_printed_sentence_is_no_verdict_under_the_fixed_policy():
    conversation = dialogue(False, False, False)
    for m in (3, 5, 7):
        conversation[m]["content"] = FAILED + "\n1\nProgram's Output:\n" + PASSED
    assert cut(conversation, [0.0, 0.5, 1.0])[1] == "all_passed_twice"
    assert cut(conversation, [0.0, 0.5, 1.0], policy="fixed")[1] is None


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=5),
    st.sampled_from(["faithful", "fixed"]),
)
def test_slices_are_a_prefix_with_rising_best(turns, policy):
    passed, rates = zip(*turns, strict=True)
    found, stop = cut(dialogue(*passed), list(rates), policy=policy)
    assert [n for n, _ in found] == list(range(1, len(found) + 1))
    bests = [best for _, best in found]
    assert bests == sorted(bests) == [max(rates[:n]) for n, _ in found]
    assert (stop is None) == (len(found) == 3)


# --- Golden contexts


def build(source, out, **kw):
    return build_contexts(source, out, tokenizer=WordTokenizer(), **kw)


@pytest.mark.parametrize(
    ("name", "kw"), [("train", {}), ("train_fixed", {"policy": "fixed"}), ("test", {"is_test": True})]
)
def test_golden_contexts(name, kw, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(each) + "\n" for each in rows()))
    summary, contexts = build(source, out, **kw), expected(name)
    random.Random(42).shuffle(contexts)
    assert [json.loads(line) for line in out.read_text().splitlines()] == contexts
    assert (summary.tasks, summary.skipped, summary.contexts) == (len(GOLDEN["tasks"]), 1, len(contexts))
    assert sum(summary.by_depth.values()) == summary.contexts and summary.warnings == []
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["counts"]["contexts"] == len(contexts)
    assert manifest["settings"]["policy"] == kw.get("policy", "faithful")
    other = tmp_path / "other.jsonl"
    build(source, other, seed=43, **kw)
    assert other.read_bytes() != out.read_bytes()
    assert sorted(other.read_text().splitlines()) == sorted(out.read_text().splitlines())


def test_summary_counts_and_slices_follow_the_turns(tmp_path):
    tasks = {task["id"]: task for task in GOLDEN["tasks"]}
    chosen = [row(tasks[name]) for name in tasks if name in ("many", "too_long", "five_turns", "two_turns")]
    summary = build(chosen, tmp_path / "out.jsonl")
    assert (summary.candidates, summary.kept, summary.tasks_with_trajectories) == (6 + 2 + 2 + 1, 9, 4)
    assert summary.by_depth == {0: 4, 1: 4 + 1 + 1 + 1, 2: 4 + 1, 3: 4}
    assert list(summary.stops.values()) == [1, 2, 1, 1] and summary.longest_prompt == 10_000
    rates = [0.0, 0.25, 0.25, 0.5, 1.0]
    long = row(tasks["many"] | {"samples": [[rates, rates], [[0.0] * 5, [0.0] * 5]]})
    assert build([long], tmp_path / "out.jsonl").by_depth == {depth: 1 for depth in range(6)}
    contexts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    shown = sorted((len(each["conversation"]) // 2 - 1, each["prev_best_pass_rate"]) for each in contexts)
    assert shown == [(0, 0.0), (1, 0.0), (2, 0.25), (3, 0.25), (4, 0.5), (5, 1.0)]


# --- Input


def task_row(**change):
    return row(GOLDEN["tasks"][0]) | change


def test_missing_fields_are_assumed_with_one_warning(tmp_path):
    plain = [task_row(id=name) for name in ("a", "b")]
    solved = row({"id": "c", "samples": [[[1, 0, 0], [1, 0, 0]]]})
    for each in (*plain, solved):
        del each["public_test_cases"], each["exec_results"], each["hidden_test_cases"]
    summary = build([*plain, solved], tmp_path / "out")
    assert summary.skipped == 1
    assert [warning.split(":")[0] for warning in summary.warnings] == ["3 tasks", "3 tasks"]


def test_rates_without_verdict_mask_their_trajectory_and_dialogues_may_stop_early(tmp_path):
    faulty = task_row()
    faulty["all_pass_rates"][0][1] = None
    assert read_trajectories(faulty, "x").rates == [None, [0.0, 0.0, 0.0]]
    summary = build([faulty], tmp_path / "out")
    assert (summary.unjudged, summary.contexts) == (1, 1) and "no verdict" in summary.warnings[-1]
    ragged = row({"id": "a", "samples": [[[0, 1, 1], [0, 1, 1]], [[1, 1, 1], [1, 1, 1]]]})
    ragged["conversations"][1] = ragged["conversations"][1][:4]
    ragged["all_pass_rates"][1] = [1]
    ragged["public_pass_rates"][1][1] = ragged["public_pass_rates"][2][1] = None
    assert read_trajectories(ragged, "x").rates == [[0.0, 1.0, 1.0], [1.0]]


DROP = object()


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (DROP, ["id"], "'id'"),
        ("{", ["test_cases"], "field 'test_cases': not valid JSON"),
        ('{"inputs": ["1"], "outputs": ["1"]}', ["test_cases"], "holds 1 tests, 4 are public"),
        ([], ["conversations"], "'conversations' holds no samples"),
        ([{"role": "user", "content": ""}] * 4, ["conversations", 1], r"conversations\[1\]\[0\] must be"),
        (None, ["conversations", 1, 2, "content"], r"conversations\[1\]\[2\]: 'content' must be a string"),
        (DROP, ["conversations", 0, -1], r"conversations\[0\] must be a list of 2"),
        ([[0, 0]] * 3, ["all_pass_rates"], r"all_pass_rates has 3 rates for 2 .*\[sample\]\[turn\]"),
        ([0, 0], ["all_pass_rates", 0], r"all_pass_rates\[0\] has 2 rates for 3 programs"),
        ([[0] * 3] * 2, ["public_pass_rates"], r"public_pass_rates has 2 rates for 3 .*\[turn\]\[sample\]"),
        (1.5, ["all_pass_rates", 0, 0], r"all_pass_rates\[0\]\[0\] must be a rate in \[0, 1\], got 1.5"),
        (float("nan"), ["public_pass_rates", 2, 1], r"public_pass_rates\[2\]\[1\] must be .* nan"),
        ([], ["exec_results", 1, "passing"], r"exec_results\[1\]: 'passing'"),
        ("infra_error", ["exec_results", 1, "status"], r"exec_results\[1\] is an infra_error"),
    ],
)
def test_malformed_rows_name_line_and_field_and_change_nothing(value, path, message, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    broken = spot = json.loads(json.dumps(task_row(id="broken")))
    for key in path[:-1]:
        spot = spot[key]
    if value is DROP:
        del spot[path[-1]]
    else:
        spot[path[-1]] = value
    source.write_text(json.dumps(task_row()) + "\n" + json.dumps(broken) + "\n")
    out.write_text("as it was")
    with pytest.raises(InputError, match=rf"in\.jsonl:2.*{message}"):
        build(source, out)
    assert out.read_text() == "as it was"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_inputs_that_cannot_be_used(tmp_path):
    class Refusing:
        def apply_chat_template(self, *_, **__):
            raise ValueError("no system messages, please")

    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    for text, target, message in (
        ((json.dumps(task_row()) + "\n") * 2, out, r"in.jsonl:2: id 'gain' occurs twice"),
        ("", source, "is the input"),
        ("", out, "in.jsonl holds no rows"),
    ):
        source.write_text(text)
        with pytest.raises(InputError, match=message):
            build(source, target)
    with pytest.raises(InputError, match=r"row 1: conversations\[0\]: the chat template .* no system"):
        build_contexts([task_row()], out, tokenizer=Refusing())


# --- Several processes


def test_processes_do_not_change_the_result(tmp_path):
    many = [row(task | {"id": f"{task['id']} {n}"}) for n in range(40) for task in GOLDEN["tasks"]]
    source = tmp_path / "in.jsonl"
    source.write_text("\n".join([*map(json.dumps, many), '{"id": 1}', json.dumps(many[0])]) + "\n")
    found = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.jsonl"
        summary = build(source, out, workers=workers, on_bad_row="skip")
        rejects = (tmp_path / f"{workers}.jsonl.rejects.jsonl").read_text()
        found.append((out.read_bytes(), rejects, summary.counts(), summary.warnings))
    assert found[0] == found[1]
    assert found[0][2]["bad_rows"] == 2 and "occurs twice" in found[0][1]
    with pytest.raises(InputError, match=rf"in\.jsonl:{len(many) + 1}: .*'difficulty' is missing"):
        build(source, tmp_path / "out", workers=2)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order_and_are_read_only_a_little_ahead(workers):
    read = 0

    def items():
        nonlocal read
        for n in range(200):
            read += 1
            yield n

    def work(n):
        time.sleep(0.002 * (n % 3))
        return os.getpid()

    pids = set()
    for done, (n, pid) in enumerate(in_order(work, items(), workers)):
        assert n == done and read <= done + CHUNK * (3 * workers + 2)
        pids.add(pid)
    assert done == 199 and (os.getpid() in pids) == (workers == 1)


def test_errors_and_killed_children():
    def refuse(n):
        raise InputError("x:4: field 'a'")

    def die(n):
        os.kill(os.getpid(), signal.SIGKILL)

    for work, error in ((refuse, InputError), (die, InfraError)):
        with pytest.raises(error, match=r"x:4|a worker process was killed"):
            list(in_order(work, range(9), 2))
