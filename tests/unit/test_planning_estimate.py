"""`cobalt plan CONFIG`: hand arithmetic, every printed product, and what must never get cheaper."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import replace
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.plan.arithmetic import Sheet, evaluate, number
from cobalt.plan.assumptions import GPUS, Assumptions, parse
from cobalt.plan.devices import DoesNotFit
from cobalt.plan.estimate import Estimate, estimate
from cobalt.plan.models import KNOWN, Model
from cobalt.plan.workload import Sampling, Training, Workload

# Responses of 100 tokens (deviation next to nothing), one GPU of round figures, tests of 100 ms.
ROUND = {
    "plain.response_tokens": 100, "plain.response_sigma": 1e-6, "contest.statement_tokens": 90,
    "contest.statement_sigma": 1e-6, "contest.feedback_tokens": 40, "contest.feedback_sigma": 1e-6,
    "contest.characters_per_token": 2, "contest.test_ms": 95, "contest.test_sigma": 1e-6,
    "contest.slow_share": 0, "tests.overhead_ms": 5, "contest.skipped_tasks": 0.5,
    "contest.kept_trajectories": 2, "contest.slices": 2, "sampling.bandwidth_share": 0.5,
    "sampling.prefill_share": 0.5, "sampling.step_ms": 2, "sampling.reserve_gb": 1, "sampling.sequences": 10,
    "sampling.start_s": 60, "sampling.memory_share": 0.5, "sampling.training_memory_share": 0.5,
    "training.mfu": 0.5, "training.forward_mfu": 0.5, "training.step_s": 10, "training.start_s": 100,
    "gpu.h100-80.tflops": 1000, "gpu.h100-80.bandwidth_gb_s": 2000, "gpu.h100-80.memory_gb": 100,
    "gpu.h100-80.price_h": 2, "evaluator.cores_per_gpu": 4, "price.cpu_core_h": 0.1,
}  # fmt: skip
A = Assumptions().replaced(ROUND, "test")
MODEL = Model("one", 1.0, 10, 8, 4, 100, 800, 3200, 1000)
COLLECT = Sampling("collect", 100, 4, 1, 1000, tests=10, grows=True)
REPAIR = Sampling("repair", 100, 4, 3, 1000, tests=2, hidden_tests=8, first_turn=2, grows=True)
TRAIN = Training("train", None, 2.0, 10, 4, 2, 5000, 1000, tests=10, save_every=10)
SMALL = Workload(
    "small", MODEL, "h100-80", 2, "contest", "plain", system_characters=20, feedback_characters=20,
    max_context=8000, concurrency=1000, sampling=(COLLECT, REPAIR), training=(TRAIN,), context_tasks=100,
)  # fmt: skip
PAPER = Workload(
    "paper", KNOWN["Qwen/Qwen3-8B"], "h100-80", 4, "contest", "thinking", 1300, 600, 32768, 512,
    (
        Sampling("collect", 5853, 16, 1, 6144, 20, grows=True),
        Sampling("repair", 5853, 16, 3, 6144, 4, 16, first_turn=2, grows=True),
        Sampling("evaluate", 175, 16, 9, 6144, 3, 30, models=2),
    ),
    (
        Training(
            "train", None, 2.0, 128, 16, 2, 10240, 6144, 20, offload=True, validation_tasks=250,
            validate_every=10,
        ),
    ),
    context_tasks=5853, judged_cases=100,
)  # fmt: skip


def value(found: Estimate, section: str, name: str) -> float:
    return next(line.value for line in found.arithmetic if (line.section, line.name) == (section, name))


def recomputed(numbers: str) -> float:
    """What a calculator gives for the printed numbers; written anew, without the code under test."""
    words = {"max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "exp": math.exp, "ln": math.log,
             "sqrt": math.sqrt, "Phi": NormalDist().cdf}  # fmt: skip
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", numbers).replace(" x ", " * ")
    assert re.fullmatch(r"[\w\s.*/+(),-]+", plain), plain
    return float(eval(plain, {"__builtins__": {}}, words))


@pytest.mark.parametrize("work", [SMALL, PAPER, replace(PAPER, device="a100-80", gpus=16, tensor_parallel=4)])
def test_every_printed_line_can_be_checked_with_a_calculator(work):
    found = estimate(work, A if work is SMALL else None)
    assert len(found.arithmetic) > 60
    for line in found.arithmetic:
        again = recomputed(line.numbers)
        if "floor" in line.numbers or "ceil" in line.numbers:  # a rounded quotient may fall on the other side
            assert abs(again - line.value) <= 1, line
        else:
            assert again == pytest.approx(line.value, rel=2e-3, abs=1e-6), line
        assert f"{number(line.value)}" in str(line)


def test_a_small_plan_by_hand():
    found = estimate(SMALL, A)
    # openings of 20/2 + 90 tokens; a turn adds an answer of 100, 20/2 of fixed text and 40 of values
    assert value(found, "lengths", "first prompt") == pytest.approx(100)
    assert value(found, "lengths", "a turn adds") == pytest.approx(150)
    collect, repair, hidden, train = found.stages[:4]
    assert (collect.completions, collect.prompt_tokens) == (400, pytest.approx(40_000))
    assert collect.completion_tokens == pytest.approx(40_000)
    # the second program's prompt has 250 tokens, the third's 400
    assert (repair.completions, repair.prompt_tokens) == (800, pytest.approx(400 * 650))
    # 400 programs x 10 tests x 100 ms
    assert collect.cpu_h == pytest.approx(400 / 3600) and repair.cpu_h == pytest.approx(160 / 3600)
    assert hidden.cpu_h == pytest.approx(1200 * 8 * 0.1 / 3600) and hidden.gpu_h == 0
    assert hidden.wall_h == pytest.approx(hidden.cpu_h / 8)
    # Decoding: 10 at once (the limit); a sequence holds 100 + 50 tokens x 2 x 10 x 4 x 100 x 2 bytes
    cache = 150 * 16_000 / 1e9
    assert value(found, "collect", "cache of a sequence") == pytest.approx(cache)
    assert value(found, "collect", "sequences at once of a replica") == 10
    # 200 per GPU: 19 full rounds of 100 steps, then 100 more with all ten; 2 GB of weights at 1,000 GB/s
    step_ms = 1000 * (2 + 10 * cache) / 1000 + 2
    assert value(found, "collect", "a step with a full batch") == pytest.approx(step_ms)
    reading = 40_000 / 4 / (2 * 1000 * 500 / (2 + 2 * 10 * 8 * 100 * 100 / 1e9))
    sampling = reading + 2000 * step_ms / 1000
    assert value(found, "collect", "sampling") == pytest.approx(sampling, rel=1e-3)
    # the evaluator's 400 s on 8 cores are longer than that
    assert collect.wall_h == pytest.approx((max(50, sampling) + 60) / 3600)
    assert collect.gpu_h == pytest.approx(2 * collect.wall_h)
    # contexts: 50 tasks x (1 + 4), in which an opening shows none, the slices one and two: 6/5 on average
    assert value(found, "contexts", "contexts") == pytest.approx(250)
    assert value(found, "train", "steps") == pytest.approx(2 * 250 / 10)
    prompt = 100 + 1.2 * 150
    assert train.prompt_tokens == pytest.approx(50 * 40 * prompt)
    assert train.updated_tokens == pytest.approx(50 * 40 * (prompt + 100))
    assert train.reference_tokens == pytest.approx(2 * train.updated_tokens)
    # update: four forward passes of 2 GFLOP and attention over 380 tokens, at 2 x 500 TFLOP/s
    per_token = 2 + 2 * 10 * 8 * 100 * (prompt + 100) / 1e9
    assert value(found, "train", "update") == pytest.approx(
        4 * 40 * (prompt + 100) * per_token / 1e6, rel=1e-3
    )
    assert train.cpu_h == pytest.approx(50 * 40 * 10 * 0.1 / 3600)
    # five checkpoints of 14 bytes and two exports of 2 per parameter
    assert value(found, "disk", "train: checkpoints, and the exports model/ and best/") == pytest.approx(74)
    assert value(found, "money", "GPUs") == pytest.approx(2 * found.total("gpu_h"))
    assert found.usd == pytest.approx(
        2 * found.total("gpu_h") + 0.1 * found.total("cpu_h") + 0.08 * found.disk_gb
    )


def test_lengths_are_those_of_cut_lognormals():
    """Against 40,000 draws: mean and mean square of what is cut, and the length of what is under way."""
    found = estimate(PAPER)
    normal, count = NormalDist(), 40_000
    drawn = [min(6144.0, 2500 * math.exp(0.6 * normal.inv_cdf((i + 0.5) / count))) for i in range(count)]
    mean, square = sum(drawn) / count, sum(x * x for x in drawn) / count
    assert value(found, "lengths", "mean response") == pytest.approx(mean, rel=1e-3)
    assert value(found, "lengths", "mean square") == pytest.approx(square, rel=1e-3)
    assert value(found, "lengths", "cut at the limit") == pytest.approx(
        sum(x == 6144 for x in drawn) / count, abs=1e-4
    )


def test_prompts_are_cut_at_limits():
    """Nine turns within 3,000 tokens: late prompts stand at the limit, no prompt is above it."""
    narrow = estimate(replace(PAPER, max_context=3000))
    per_dialogue = value(narrow, "evaluate", "prompt tokens of a dialogue")
    assert per_dialogue < 9 * 3000
    assert per_dialogue < value(estimate(PAPER), "evaluate", "prompt tokens of a dialogue") / 1.5
    late = [line.value for line in narrow.arithmetic if line.name == "the same, cut"]
    assert max(late) <= 3000 and max(late) > 2990


def test_ten_times_the_data_is_ten_times_the_tokens():
    train_only = replace(PAPER, sampling=PAPER.sampling[:2], judged_cases=0)
    base, ten = estimate(train_only), estimate(train_only.scaled(10))
    for name in ("prompt_tokens", "completion_tokens", "updated_tokens", "reference_tokens", "cpu_h"):
        assert ten.total(name) == pytest.approx(10 * base.total(name), rel=1e-12)
    whole = estimate(PAPER), estimate(PAPER.scaled(10))
    evaluated = [next(each for each in found.stages if each.name == "evaluate") for found in whole]
    assert evaluated[0] == evaluated[1]


@settings(max_examples=15, deadline=None)
@given(
    st.floats(1, 50), st.integers(1, 8), st.sampled_from(["small", "paper"]), st.sampled_from(GPUS),
    st.integers(1, 9),
)  # fmt: skip
def test_more_data_is_never_cheaper_and_more_gpus_are_never_slower(factor, more, which, kind, turns):
    work = {"small": SMALL, "paper": PAPER}[which]
    work = replace(work, device=kind, gpus=8)
    if which == "paper" and kind in ("rtx4090", "l40s"):  # on which 8 B cannot be trained
        work = replace(work, model=KNOWN["Qwen/Qwen3-0.6B"])
    base = estimate(work, A if which == "small" else None)
    grown = estimate(work.scaled(factor), A if which == "small" else None)
    for name in ("wall_h", "gpu_h", "cpu_h", "prompt_tokens", "completion_tokens"):
        assert grown.total(name) >= base.total(name) * (1 - 1e-9)
    assert grown.usd >= base.usd * (1 - 1e-9) and grown.disk_gb >= base.disk_gb
    faster = estimate(replace(work, gpus=8 + more), A if which == "small" else None)
    assert faster.total("wall_h") <= base.total("wall_h") * (1 + 1e-9)
    longer = replace(work, sampling=tuple(replace(s, turns=max(s.turns, turns)) for s in work.sampling[1:]))
    shorter = replace(work, sampling=work.sampling[1:])
    assert estimate(longer).total("wall_h") >= estimate(shorter).total("wall_h") * (1 - 1e-9)


def test_a_model_that_does_not_fit_is_refused_with_advice():
    state = r"Qwen/Qwen3-8B needs weights 32.8 \+ gradients 32.8 \+ optimiser 65.5 .* on each of 1 x l40s"
    with pytest.raises(DoesNotFit, match=rf"{state} .* for the update: .*lora_rank"):
        estimate(replace(PAPER, device="l40s", gpus=1))
    kept = replace(PAPER, training=(replace(PAPER.training[0], offload=False),))
    with pytest.raises(DoesNotFit, match=r"optimiser 16.4 \+ vllm 59.9 .* = 88 GB .* for the rollout"):
        estimate(kept)  # the optimiser beside a vLLM that takes 0.7 of the card
    with pytest.raises(DoesNotFit, match="does not fit on 1 x l40s"):
        estimate(replace(PAPER, device="l40s", gpus=1, model=KNOWN["Qwen/Qwen3-32B"]))
    stored = replace(PAPER.training[0], offline=True, pass_sequences=1, offload=False)
    one = replace(PAPER, gpus=1, training=(stored,))
    with pytest.raises(
        DoesNotFit, match=r"needs weights 32.8 \+ gradients 32.8 \+ optimiser 65.5 .* for the training: "
    ):
        estimate(one)
    for fits in (replace(one, gpus=4), replace(one, training=(replace(stored, lora_rank=32),))):
        line = next(row for row in estimate(fits).arithmetic if row.name == "memory of a GPU, training")
        assert "logits" in line.formula and 20 < line.value < 80
    with pytest.raises(InputError, match="no GPU kind 'b200'; known: rtx4090"):
        estimate(replace(PAPER, device="b200"))


def test_measured_rates_and_other_kinds_of_training():
    rate = Assumptions().replaced({"sampling.measured_tokens_per_s": 5000}, "bench")
    found = estimate(PAPER, rate)
    assert value(found, "collect", "sampling at the measured rate") == pytest.approx(
        5853 * 16 * value(found, "lengths", "mean response") / (4 * 5000)
    )
    offline = estimate(
        replace(
            PAPER, training=(replace(PAPER.training[0], offline=True, reference=False, old_log_probs=False),)
        )
    )
    train = next(each for each in offline.stages if each.name == "train")
    assert train.completion_tokens == 0 and train.cpu_h == 0 and train.updated_tokens > 0
    online = replace(PAPER.training[0], turns=3, on_statements=True, rows=5853)
    dialogues = next(
        each for each in estimate(replace(PAPER, training=(online,))).stages if each.name == "train"
    )
    assert dialogues.completions == pytest.approx(2 * 5853 / 128 * (128 * 16 * 3 + 250 * 3 / 10))
    paid = replace(PAPER, sampling=(replace(PAPER.sampling[0], provider=True),))
    bought = estimate(paid).stages[0]
    assert bought.gpu_h == 0
    assert bought.usd == pytest.approx(bought.prompt_tokens * 0.25e-6 + bought.completion_tokens * 2e-6)


def test_sheets_print_what_they_compute():
    sheet = Sheet(section="s")
    assert sheet.put("area", "width * (height + 1)", "m", width=2.5, height=1999) == 5000
    assert str(sheet.lines[0]) == "  area = width x (height + 1) = 2.5 x (1,999 + 1) = 5,000 m"
    assert [number(x) for x in (0, 1234567, 0.000123456, 12.3456, -2.5, 99999.96)] == [
        "0", "1,234,567", "0.00012346", "12.346", "(-2.5)", "100,000",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate("width ** 2", {"width": 2.0})


def test_assumptions_are_checked():
    with pytest.raises(InputError, match=r"no assumption 'training.mfuu'; did you mean 'training.mfu'\?"):
        A.replaced(parse(["training.mfuu=0.4"]), "--assume")
    with pytest.raises(InputError, match=r"--assume: 'training.mfu' is a share and must be at most 1, got 2"):
        A.replaced(parse(["training.mfu=2"]), "--assume")
    with pytest.raises(InputError, match=r"'sampling.sequences' must be above 0, got 0"):
        A.replaced(parse(["sampling.sequences=0"]), "--assume")
    for wrong in ("training.mfu", "training.mfu=much", "=3="):
        with pytest.raises(InputError, match="NAME=NUMBER"):
            parse([wrong])
    changed = estimate(PAPER, Assumptions().replaced({"training.mfu": 0.7}, "--assume"))
    assert value(changed, "train", "update") == pytest.approx(value(estimate(PAPER), "train", "update") / 2)
    assert any("training.mfu = 0.7 share  [--assume]" in line for line in changed.lines())


def test_each_assumption_is_used_has_a_unit_and_a_reason():
    tiny = replace(
        PAPER, tasks_kind="tiny", responses="tiny", device="cpu", gpus=1, model=KNOWN["tiny-reference"]
    )
    plain = replace(PAPER, responses="plain", sampling=(replace(PAPER.sampling[0], provider=True),))
    lora = replace(PAPER, training=(replace(PAPER.training[0], lora_rank=8, offload=True),))
    stored = replace(PAPER.training[0], offline=True, submitted=True)
    submitted = [replace(work, training=(stored,)) for work in (PAPER, tiny)]
    used = {row.name for work in (PAPER, tiny, plain, lora, *submitted) for row in estimate(work).used}
    left = {name for name in Assumptions().rows if name not in used and not name.startswith("gpu.")}
    # what `from_config` and `scaling` ask for
    assert left == {
        "contest.train_tasks", "contest.dev_tasks", "contest.lcb_tasks", "contest.lcb_public_tests",
        "contest.lcb_hidden_tests", "contest.turn_errors", "contest.stored_groups", "tiny.public_tests",
        "contest.submitted_groups", "tiny.stored_groups",
        "tiny.turn_errors",
    }  # fmt: skip
    assert all(row.unit and len(row.reason) > 10 for row in Assumptions().rows.values())


def test_the_estimate_is_json():
    import json

    answer = json.loads(json.dumps(estimate(PAPER).as_dict()))
    assert answer["totals"]["gpu_h"] == pytest.approx(sum(each["gpu_h"] for each in answer["stages"]))
    assert {"formula", "numbers", "value", "unit"} <= answer["arithmetic"][0].keys()
    assert {each["name"] for each in answer["assumptions"]} >= {"training.mfu"}
    assert dataclasses.asdict(PAPER)["sampling"][0]["name"] == answer["workload"]["sampling"][0]["name"]
