"""Slices and their stops, the reading of trajectories, and the golden contexts."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.contexts.build import build_contexts, main
from cobalt.contexts.slice import slices
from cobalt.contexts.trajectories import read_trajectories
from cobalt.errors import InputError

sys.path.append(str(Path(__file__).parents[1] / "golden"))
from golden_contexts import BARE, FAILED, GOLDEN, PASSED, WordTokenizer, expected, row, rows

Messages = list[dict[str, str]]


def dialogue(*passed: bool) -> Any:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for flag in passed:
        messages.append({"role": "assistant", "content": "a"})
        messages.append({"role": "user", "content": PASSED if flag else FAILED})
    return messages


def cut(conversation: Any, rates: list[float], **kw: Any) -> tuple[list[tuple[int, float]], str | None]:
    kw.setdefault("count_prompt_tokens", len)
    found, stop = slices(conversation, rates, **kw)
    return [(each.programs, each.prev_best_pass_rate) for each in found], stop


def test_previous_best_is_that_of_the_programs_shown() -> None:
    assert cut(dialogue(False, False, False), [0.5, 0.25, 0.75]) == ([(1, 0.5), (2, 0.5), (3, 0.75)], None)


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
def test_two_passed_feedbacks_in_a_row_end_the_slices(
    passed: tuple[bool, ...], programs: list[int], bare: tuple[int, ...], policy: Any
) -> None:
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
def test_solved_trajectories(rates: list[float], faithful: list[int], fixed: list[int]) -> None:
    conversation = dialogue(False, False, False)
    for policy, programs in (("faithful", faithful), ("fixed", fixed)):
        found, stop = cut(conversation, rates, policy=policy)
        assert [n for n, _ in found] == programs
        assert stop == (None if len(programs) == 3 else "solved")


def test_limit_is_inclusive_and_ends_the_slices() -> None:
    lengths = {4: 10_000, 6: 10_001, 8: 1}
    found, stop = cut(
        dialogue(False, False, False), [0.0, 0.5, 1.0], count_prompt_tokens=lambda m: lengths[len(m)]
    )
    assert (found, stop) == ([(1, 0.0)], "prompt_too_long")
    with_limit = cut(dialogue(False, False, False), [0.0, 0.5, 1.0], max_prompt_tokens=5)
    assert with_limit == ([(1, 0.0)], "prompt_too_long")


def test_order_of_the_stops() -> None:
    def never(_: object) -> int:
        raise AssertionError("no need to count")

    assert cut(dialogue(True, True, True), [1.0, 0.0, 1.0], count_prompt_tokens=lambda _: 10**6) == (
        [],
        "prompt_too_long",
    )
    conversation = dialogue(False, False, False)
    conversation[1]["content"] = conversation[3]["content"] = PASSED
    assert cut(conversation, [1.0, 0.0, 1.0], count_prompt_tokens=never) == ([], "all_passed_twice")


def test_shorter_and_longer_trajectories() -> None:
    assert cut(dialogue(False), [0.5]) == ([(1, 0.5)], "trajectory_ended")
    assert cut(dialogue(False, False), [1.0, 0.5]) == ([(1, 1.0), (2, 1.0)], "trajectory_ended")
    assert cut(dialogue(*[False] * 9), [0.0] * 9) == ([(1, 0.0), (2, 0.0), (3, 0.0)], None)


def test_slices_follow_the_turns(tmp_path: Path) -> None:
    task = next(each for each in GOLDEN["tasks"] if each["id"] == "many")
    rates = [0.0, 0.25, 0.25, 0.5, 1.0]
    long = row(task | {"samples": [[rates, rates], [[0.0] * 5, [0.0] * 5]]})
    summary = build_contexts([long], tmp_path / "out.jsonl", tokenizer=WordTokenizer())
    contexts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    shown = sorted((len(each["conversation"]) // 2 - 1, each["prev_best_pass_rate"]) for each in contexts)
    assert shown == [(0, 0.0), (1, 0.0), (2, 0.25), (3, 0.25), (4, 0.5), (5, 1.0)]
    assert summary.by_depth == {depth: 1 for depth in range(6)}
    assert summary.counts()["prompt_tokens"]["by_depth"].keys() == set(range(6))


def test_a_printed_sentence_is_no_verdict_under_the_fixed_policy() -> None:
    conversation = dialogue(False, False, False)
    for m in (3, 5, 7):
        conversation[m]["content"] = FAILED + "\n1\nProgram's Output:\n" + PASSED
    assert cut(conversation, [0.0, 0.5, 1.0])[1] == "all_passed_twice"
    assert cut(conversation, [0.0, 0.5, 1.0], policy="fixed")[1] is None


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=5),
    st.sampled_from(["faithful", "fixed"]),
)
def test_slices_are_a_prefix_with_rising_best(turns: list[tuple[bool, float]], policy: str) -> None:
    passed, rates = zip(*turns, strict=True)
    found, stop = cut(dialogue(*passed), list(rates), policy=policy)
    assert [n for n, _ in found] == list(range(1, len(found) + 1))
    bests = [best for _, best in found]
    assert bests == sorted(bests) == [max(rates[:n]) for n, _ in found]
    assert (stop is None) == (len(found) == 3)


# --- Golden contexts


@pytest.mark.parametrize(
    ("name", "kw"),
    [("train", {}), ("train_fixed", {"policy": "fixed"}), ("test", {"is_test": True})],
)
def test_golden_contexts(name: str, kw: dict[str, Any], tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(each) + "\n" for each in rows()))
    summary = build_contexts(source, out, tokenizer=WordTokenizer(), **kw)
    contexts = expected(name)
    random.Random(42).shuffle(contexts)
    assert [json.loads(line) for line in out.read_text().splitlines()] == contexts
    assert (summary.tasks, summary.skipped, summary.contexts) == (len(GOLDEN["tasks"]), 1, len(contexts))
    assert sum(summary.by_depth.values()) == summary.contexts
    assert summary.warnings == []
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["counts"]["contexts"] == len(contexts)
    assert manifest["settings"]["policy"] == kw.get("policy", "faithful")


def test_summary_counts(tmp_path: Path) -> None:
    chosen = [
        row(task) for task in GOLDEN["tasks"] if task["id"] in ("many", "too_long", "five_turns", "two_turns")
    ]
    summary = build_contexts(chosen, tmp_path / "out.jsonl", tokenizer=WordTokenizer())
    assert (summary.candidates, summary.kept, summary.tasks_with_trajectories) == (6 + 2 + 2 + 1, 9, 4)
    assert summary.by_depth == {0: 4, 1: 4 + 1 + 1 + 1, 2: 4 + 1, 3: 4}
    assert summary.stops == {
        "all_passed_twice": 1,
        "prompt_too_long": 2,
        "solved": 1,
        "trajectory_ended": 1,
    }
    assert summary.longest_prompt == 10_000


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file, seed in zip(files, (42, 42, 43), strict=True):
        build_contexts(rows(), file, tokenizer=WordTokenizer(), seed=seed)
    a, b, c = (file.read_bytes() for file in files)
    assert a == b != c
    assert sorted(a.splitlines()) == sorted(c.splitlines())


# --- Input


def task_row(**change: Any) -> dict[str, Any]:
    return row(GOLDEN["tasks"][0]) | change


def test_missing_fields_are_assumed_with_one_warning(tmp_path: Path) -> None:
    plain = [task_row(id=name) for name in ("a", "b")]
    solved = row({"id": "c", "samples": [[[1, 0, 0], [1, 0, 0]]]})
    for each in (*plain, solved):
        del each["public_test_cases"], each["exec_results"], each["hidden_test_cases"]
    summary = build_contexts([*plain, solved], tmp_path / "out", tokenizer=WordTokenizer())
    assert summary.skipped == 1
    assert [warning.split(":")[0] for warning in summary.warnings] == ["3 tasks", "3 tasks"]


def test_rates_without_verdict_mask_their_trajectory(tmp_path: Path) -> None:
    faulty = task_row()
    faulty["all_pass_rates"][0][1] = None
    assert read_trajectories(faulty, "x").rates == [None, [0.0, 0.0, 0.0]]
    summary = build_contexts([faulty], tmp_path / "out", tokenizer=WordTokenizer())
    assert (summary.unjudged, summary.contexts) == (1, 1)
    assert "no verdict" in summary.warnings[0]


def test_trajectories_that_stopped_early() -> None:
    ragged = row({"id": "a", "samples": [[[0, 1, 1], [0, 1, 1]], [[1, 1, 1], [1, 1, 1]]]})
    ragged["conversations"][1] = ragged["conversations"][1][:4]
    ragged["all_pass_rates"][1] = [1]
    ragged["public_pass_rates"][1][1] = ragged["public_pass_rates"][2][1] = None
    assert read_trajectories(ragged, "x").rates == [[0.0, 1.0, 1.0], [1.0]]


def drop(field: str) -> Callable[[dict[str, Any]], None]:
    return lambda each: each.pop(field)


def put(value: Any, *path: Any) -> Callable[[dict[str, Any]], None]:
    def change(each: Any) -> None:
        for key in path[:-1]:
            each = each[key]
        each[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("id"), "'id'"),
        (drop("difficulty"), "'difficulty' is missing"),
        (drop("test_cases"), "'test_cases' is missing"),
        (put("{", "test_cases"), "field 'test_cases': not valid JSON"),
        (put('{"inputs": ["1"], "outputs": []}', "test_cases"), "1 inputs but 0 outputs"),
        (put('{"inputs": ["1"], "outputs": ["1"]}', "test_cases"), "holds 1 tests, 4 are public"),
        (drop("conversations"), "'conversations' is missing"),
        (put([], "conversations"), "'conversations' holds no samples"),
        (put([{"role": "user", "content": ""}] * 4, "conversations", 1), r"conversations\[1\]\[0\] must be"),
        (put(None, "conversations", 1, 2, "content"), r"conversations\[1\]\[2\]: 'content' must be a string"),
        (lambda each: each["conversations"][0].pop(), r"conversations\[0\] must be a list of 2"),
        (put([[0, 0]] * 3, "all_pass_rates"), "all_pass_rates has 3 samples, conversations 2"),
        (put([0, 0], "all_pass_rates", 0), r"all_pass_rates\[0\] has 2 rates, conversations\[0\] 3"),
        (put([[0] * 3] * 2, "public_pass_rates"), r"public_pass_rates has 2 turns, .*\[turn\]\[sample\]"),
        (put([[0] * 3] * 3, "public_pass_rates"), r"public_pass_rates\[0\] has 3 rates for 2 samples"),
        (put(1.5, "all_pass_rates", 0, 0), r"all_pass_rates\[0\]\[0\] must be a rate in \[0, 1\], got 1.5"),
        (put(float("nan"), "public_pass_rates", 2, 1), r"public_pass_rates\[2\]\[1\] must be .* NaN"),
        (put(None, "public_pass_rates", 2, 1), r"public_pass_rates\[2\]\[1\] must be .* None"),
        (put(True, "public_pass_rates", 2, 1), r"public_pass_rates\[2\]\[1\] must be .* True"),
        (put([], "exec_results"), "'exec_results' holds no verdicts"),
        (put([], "exec_results", 1, "passing"), r"exec_results\[1\]: 'passing'"),
        (put("infra_error", "exec_results", 1, "status"), r"exec_results\[1\] is an infra_error"),
    ],
)
def test_malformed_rows_name_line_and_field(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    broken = json.loads(json.dumps(task_row(id="broken")))
    change(broken)
    source.write_text(json.dumps(task_row()) + "\n" + json.dumps(broken) + "\n")
    out.write_text("as it was")
    with pytest.raises(InputError, match=rf"in\.jsonl:2.*{message}"):
        build_contexts(source, out, tokenizer=WordTokenizer())
    assert out.read_text() == "as it was"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_doubled_ids_empty_files_and_the_input_as_output(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text((json.dumps(task_row()) + "\n") * 2)
    with pytest.raises(InputError, match=r"in.jsonl:2: id 'gain' occurs twice"):
        build_contexts(source, tmp_path / "out", tokenizer=WordTokenizer())
    with pytest.raises(InputError, match="is the input"):
        build_contexts(source, source, tokenizer=WordTokenizer())
    source.write_text("")
    with pytest.raises(InputError, match=r"in.jsonl holds no rows"):
        build_contexts(source, tmp_path / "out", tokenizer=WordTokenizer())
    with pytest.raises(InputError, match="cannot read"):
        build_contexts(tmp_path / "none.jsonl", tmp_path / "out", tokenizer=WordTokenizer())


def test_a_template_that_refuses_names_the_dialogue(tmp_path: Path) -> None:
    class Refusing:
        def apply_chat_template(self, *_: Any, **__: Any) -> list[int]:
            raise ValueError("no system messages, please")

    with pytest.raises(
        InputError, match=r"row 1: conversations\[0\]: the chat template .* no system messages"
    ):
        build_contexts([task_row()], tmp_path / "out", tokenizer=Refusing())


def test_door_needs_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["-o", "out"])
    assert stop.value.code == 2
    assert "--input_file" in capsys.readouterr().err


def test_processes_do_not_change_the_result(tmp_path: Path) -> None:
    many = [row(task | {"id": f"{task['id']} {n}"}) for n in range(40) for task in GOLDEN["tasks"]]
    source = tmp_path / "in.jsonl"
    broken = '{"id": 1}'
    source.write_text("\n".join([*(json.dumps(each) for each in many), broken, json.dumps(many[0])]) + "\n")
    found = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.jsonl"
        summary = build_contexts(
            source, out, tokenizer=WordTokenizer(), workers=workers, on_bad_row="skip", histogram=True
        )
        rejects = (tmp_path / f"{workers}.jsonl.rejects.jsonl").read_text()
        found.append((out.read_bytes(), rejects, summary.counts(), summary.warnings))
        assert (tmp_path / f"{workers}.jsonl.prompt_tokens.png").read_bytes().startswith(b"\x89PNG")
    assert found[0] == found[1]
    assert found[0][2]["bad_rows"] == 2 and "occurs twice" in found[0][1]
    lengths = found[0][2]["prompt_tokens"]["by_depth"]
    assert sum(sum(bins.values()) for bins in lengths.values()) == found[0][2]["contexts"]
    with pytest.raises(InputError, match=rf"in\.jsonl:{len(many) + 1}: .*'difficulty' is missing"):
        build_contexts(source, tmp_path / "out", tokenizer=WordTokenizer(), workers=2)
