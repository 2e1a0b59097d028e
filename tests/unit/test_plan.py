"""`cobalt plan CONFIG`: hand arithmetic, every printed product, what must never get cheaper, the docs."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from cobalt.config.load import load
from cobalt.errors import InputError
from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.plan.arithmetic import Sheet, number
from cobalt.plan.assumptions import GPUS, KNOWN, Assumptions, DoesNotFit, Model, shape
from cobalt.plan.cli import main
from cobalt.plan.estimate import Estimate, estimate
from cobalt.plan.from_config import workload
from cobalt.plan.workload import Sampling, Training, Workload
from cobalt.prompts import TINY as TINY_PROMPTS
from cobalt.tasks import tiny

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
DEMO, QWEN = CONFIGS / "tiny.yaml", CONFIGS / "qwen3-8b.yaml"
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
A = Assumptions().replaced([f"{name}={value}" for name, value in ROUND.items()])
MODEL = Model(1000, 10, 8, 4, 100, 32000, 16000, True, "one")  # of 1.0 billion parameters
COLLECT = Sampling("collect", 100, 4, 1, 1000, tests=10, grows=True)
REPAIR = Sampling("repair", 100, 4, 3, 1000, tests=2, hidden_tests=8, first_turn=2, grows=True)
TRAIN = Training("train", None, 2.0, 10, 4, 2, 5000, 1000, 6000, tests=10, save_every=10)
SMALL = Workload(
    "small", MODEL, "h100-80", 2, "contest", "plain", system_characters=20, feedback_characters=20,
    max_context=8000, concurrency=1000, sampling=(COLLECT, REPAIR), training=(TRAIN,), context_tasks=100,
)  # fmt: skip
GRPO = Training(
    "train", None, 2.0, 128, 16, 2, 10240, 6144, 16384, 20, offload=True, validation_tasks=250,
    validate_every=10,
)  # fmt: skip
PAPER = Workload(
    "paper", KNOWN["Qwen/Qwen3-8B"], "h100-80", 4, "contest", "thinking", 1300, 600, 32768, 512,
    (
        Sampling("collect", 5853, 16, 1, 6144, 20, grows=True),
        Sampling("repair", 5853, 16, 3, 6144, 4, 16, first_turn=2, grows=True),
        Sampling("evaluate", 175, 16, 9, 6144, 3, 30, models=2),
    ),
    (GRPO,), context_tasks=5853, judged_cases=100,
)  # fmt: skip


def value(found: Estimate, section: str, name: str) -> float:
    return next(line.value for line in found.arithmetic if (line.section, line.name) == (section, name))


def stage(found: Estimate, name: str):
    return next(each for each in found.stages if each.name == name)


def planned(path: Path, *settings: str) -> tuple[Workload, Estimate]:
    work = workload(load(path, settings), path)
    return work, estimate(work)


def recomputed(numbers: str) -> float:
    """What a calculator gives for the printed numbers; written anew, without the code under test."""
    words = {"max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "exp": math.exp, "ln": math.log,
             "Phi": NormalDist().cdf}  # fmt: skip
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
    update = 4 * 40 * (prompt + 100) * per_token / 1e6
    assert value(found, "train", "update") == pytest.approx(update, rel=1e-3)
    assert train.cpu_h == pytest.approx(50 * 40 * 10 * 0.1 / 3600)
    # five checkpoints of 14 bytes and two exports of 2 per parameter
    assert value(found, "disk", "train: checkpoints, and the exports model/ and best/") == pytest.approx(74)
    money = 2 * found.total("gpu_h") + 0.1 * found.total("cpu_h") + 0.08 * found.disk_gb
    assert found.usd == pytest.approx(money)


def test_lengths_are_those_of_cut_lognormals_and_prompts_end_at_the_context():
    """Against 40,000 draws: mean and mean square of what is cut; nine turns within 3,000 tokens."""
    found, normal, count = estimate(PAPER), NormalDist(), 40_000
    drawn = [min(6144.0, 2500 * math.exp(0.6 * normal.inv_cdf((i + 0.5) / count))) for i in range(count)]
    for name, expected in (
        ("mean response", sum(drawn) / count),
        ("mean square", sum(x * x for x in drawn) / count),
        ("cut at the limit", sum(x == 6144 for x in drawn) / count),
    ):
        assert value(found, "lengths", name) == pytest.approx(expected, rel=1e-3)
    narrow = estimate(replace(PAPER, max_context=3000))
    per_dialogue = [value(each, "evaluate", "prompt tokens of a dialogue") for each in (narrow, found)]
    assert per_dialogue[0] < min(9 * 3000, per_dialogue[1] / 1.5)
    late = [line.value for line in narrow.arithmetic if line.name == "the same, cut"]
    assert 2990 < max(late) <= 3000


@settings(max_examples=15, deadline=None)
@given(
    st.floats(1, 50), st.integers(1, 8), st.sampled_from(["small", "paper"]), st.sampled_from(GPUS),
    st.integers(1, 9),
)  # fmt: skip
def test_more_data_is_never_cheaper_and_more_gpus_are_never_slower(factor, more, which, kind, turns):
    a = A if which == "small" else None
    work = replace({"small": SMALL, "paper": PAPER}[which], device=kind, gpus=8)
    if which == "paper" and kind in ("rtx4090", "l40s"):  # on which 8 B cannot be trained
        work = replace(work, model=KNOWN["Qwen/Qwen3-0.6B"])
    base, grown = estimate(work, a), estimate(work.scaled(factor), a)
    for name in ("wall_h", "gpu_h", "cpu_h", "prompt_tokens", "completion_tokens"):
        assert grown.total(name) >= base.total(name) * (1 - 1e-9)
    assert grown.usd >= base.usd * (1 - 1e-9) and grown.disk_gb >= base.disk_gb
    faster = estimate(replace(work, gpus=8 + more), a)
    assert faster.total("wall_h") <= base.total("wall_h") * (1 + 1e-9)
    longer = replace(work, sampling=tuple(replace(s, turns=max(s.turns, turns)) for s in work.sampling[1:]))
    shorter = replace(work, sampling=work.sampling[1:])
    assert estimate(longer).total("wall_h") >= estimate(shorter).total("wall_h") * (1 - 1e-9)


STATE = r"needs weights 32.8 \+ gradients 32.8 \+ optimiser 65.5 .* on each of 1 x"
STORED = replace(GRPO, offline=True, offload=False)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"device": "l40s", "gpus": 1}, DoesNotFit, f"{STATE} l40s .* for the update: .*lora_rank"),
        ({"training": (replace(GRPO, offload=False),)}, DoesNotFit, r"optimiser 16.4 .* for the rollout"),
        ({"device": "l40s", "gpus": 1, "model": KNOWN["Qwen/Qwen3-32B"]}, DoesNotFit, "not fit on 1 x l40s"),
        ({"gpus": 1, "training": (STORED,)}, DoesNotFit, f"{STATE} .* for the training: "),
        ({"device": "b200"}, InputError, "no GPU kind 'b200'; known: rtx4090"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_advice(changes, error, said):
    with pytest.raises(error, match=said):
        estimate(replace(PAPER, **changes))


def test_other_kinds_of_training_and_of_sampling():
    for fits in (
        replace(PAPER, training=(STORED,)),
        replace(PAPER, gpus=1, training=(replace(STORED, lora_rank=32),)),
    ):
        found = estimate(fits)
        assert 20 < value(found, "train", "memory of a GPU, training") < 80
        train = stage(found, "train")
        assert train.completion_tokens == train.cpu_h == 0 < train.updated_tokens
    measured = estimate(PAPER, Assumptions().replaced(["sampling.measured_tokens_per_s=5000"]))
    seconds = 5853 * 16 * value(measured, "lengths", "mean response") / (4 * 5000)
    assert value(measured, "collect", "sampling at the measured rate") == pytest.approx(seconds)
    online = estimate(replace(PAPER, training=(replace(GRPO, turns=3, on_statements=True, rows=5853),)))
    programs = 2 * 5853 / 128 * (128 * 16 * 3 + 250 * 3 / 10)
    assert stage(online, "train").completions == pytest.approx(programs)
    dialogues = replace(SMALL, training=(replace(TRAIN, turns=3, on_statements=True, rows=100),))
    for factor in (1, 10):  # of 40 dialogues a step, whose prompts have 100, 250 and 400 tokens
        found = stage(estimate(dialogues.scaled(factor), A), "train")
        assert found.prompt_tokens == pytest.approx(factor * 2 * 100 / 10 * 40 * 750)
    bought = estimate(replace(PAPER, sampling=(replace(PAPER.sampling[0], provider=True),))).stages[0]
    usd = bought.prompt_tokens * 0.25e-6 + bought.completion_tokens * 2e-6
    assert bought.gpu_h == 0 and bought.usd == pytest.approx(usd)
    # The wall time of ever more GPUs goes towards what the plan says, and not below.
    shortest = value(estimate(PAPER), "train", "shortest step")
    assert shortest < value(estimate(replace(PAPER, gpus=4096)), "train", "a step") < 1.5 * shortest


def test_sheets_print_what_they_compute():
    sheet = Sheet({"kind.depth": 4.0}.__getitem__, ("kind",), section="s")
    steps = "floor area [m2] = width * (height + 1)\n  volume [m3] = floor_area * depth"
    assert sheet.put(steps, width=2.5, height=1999) == 20_000 and sheet["floor area"] == 5000
    assert str(sheet.lines[0]) == "  floor area = width x (height + 1) = 2.5 x (1,999 + 1) = 5,000 m2"
    assert [number(x) for x in (0, 1234567, 0.000123456, 12.3456, -2.5, 99999.96)] == [
        "0", "1,234,567", "0.00012346", "12.346", "(-2.5)", "100,000",
    ]  # fmt: skip
    for formula, error in (("a ** 2", "not arithmetic"), ("b + 1", "no 'b'"), ("1 / (a - 3)", r"by zero")):
        with pytest.raises(ValueError if "zero" not in error else InputError, match=error):
            sheet.put(f"x [] = {formula}", a=3.0)


def test_each_assumption_is_used_has_a_unit_and_a_reason():
    text = "".join(path.read_text() for path in (ROOT / "cobalt/plan").glob("*.py"))
    for row in Assumptions().rows.values():
        assert row.unit and len(row.reason) > 10 and row.name.rpartition(".")[2] in text, row.name


def spoken(tasks: int, turns: int) -> tuple[list[int], int]:
    """Prompt tokens of each turn, and tokens of all first programs, of dialogues on the demo's tasks whose
    every program guesses what its statement leaves open: one dialogue per task, in the reference's tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-reference")
    rng, prompts, programs = random.Random(0), [0] * turns, 0
    for spec, vague, tests in tiny.draw_specs("train", tasks, 0):
        messages = TINY_PROMPTS.messages(tiny.statement(spec, vague))
        for turn in range(turns):
            read = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            prompts[turn] += len(read)
            guess = tiny.redraw(rng, spec, vague)
            text = f"```python\n{tiny.program(guess)}\n```"
            programs += 0 if turn else len(tokenizer(text, add_special_tokens=False)["input_ids"]) + 1
            told = None
            for entered, expected in reversed(tests[: tiny.N_PUBLIC]):
                output = tiny.output_of(guess, [int(number) for number in entered.split()])
                told = told if output == expected else wrong_answer_feedback(entered, output or "", expected)
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": TINY_PROMPTS.feedback_message(told)},
            ]
    return prompts, programs


def test_the_demo_is_planned_in_its_true_size():
    """Programs as configured; tokens within 10 % of those of the tasks' own statements and programs."""
    (_, found), config = planned(DEMO), load(DEMO)
    collect, repair, train = (stage(found, name) for name in ("collect", "repair", "train"))
    samples, turns = config.collect.samples, config.collect.turns
    assert (collect.completions, repair.completions, train.completions) == (1200, 2400, 60 * 16 * 8)
    prompts, programs = spoken(config.tasks.train, turns)
    assert collect.prompt_tokens == pytest.approx(samples * prompts[0], rel=0.1)
    assert collect.completion_tokens == pytest.approx(samples * programs, rel=0.1)
    assert repair.prompt_tokens == pytest.approx(samples * sum(prompts[1:]), rel=0.1)
    assert repair.completion_tokens == pytest.approx(samples * programs * (turns - 1), rel=0.1)
    assert found.total("gpu_h") == 0 and 3 / 60 < found.total("wall_h") < 30 / 60


def test_the_papers_configuration():
    work, found = planned(QWEN)
    assert (work.model.name, work.device, work.gpus, work.responses) == (
        "Qwen/Qwen3-8B",
        "h100-80",
        4,
        "thinking",
    )
    assert [(each.name, each.tasks, each.samples, each.turns, each.models) for each in work.sampling] == [
        ("collect", 5853, 16, 1, 1), ("repair", 5853, 16, 3, 1), ("collect (dev)", 250, 16, 1, 1),
        ("repair (dev)", 250, 16, 3, 1), ("evaluate livecodebench", 175, 16, 9, 2),
        ("evaluate taco_dev", 250, 16, 9, 2), ("perturbed", 250, 16, 9, 2),
    ]  # fmt: skip
    (train,) = work.training
    assert (train.epochs, train.contexts, train.completions, train.steps, train.passes) == (
        2,
        128,
        16,
        None,
        2,
    )
    assert train.offload and not train.lora_rank and train.longest == 16384
    assert (train.validate_every, train.validation_tasks, train.memory_share) == (10, 250, 0.7)
    assert train.validation_contexts == pytest.approx(0.8 * (1 + 2.5))  # as contest.* of the assumptions say
    # Some hundred GPU hours, of which training takes most: the order of magnitude of such trainings.
    assert 300 < found.total("gpu_h") < 3000 and stage(found, "train").gpu_h > found.total("gpu_h") / 2


def test_recipes_have_the_stages_that_they_need(tmp_path):
    def plan(*settings: str):
        work, found = planned(QWEN, *settings)
        return [each.name for each in work.sampling[:-3]], stage(found, "train")

    both = ["collect", "repair", "collect (dev)", "repair (dev)"]
    for settings_, names in (
        ([], both),
        (["contexts.validation=openings"], both[:2]),
        (["collect.trajectories=a/b"], both[2:]),
        (["collect.trajectories=a/b", "collect.dev_trajectories=a/b"], []),
        (["train.recipe=cobalt_ptb"], [*both, "repair on perturbed tests"]),
        (["train.recipe=offline_rl"], ["collect"]),
        (["train.recipe=mt_grpo"], []),
    ):
        assert plan(*settings_)[0] == names
    assert plan("train.recipe=mt_grpo")[1].completions > 3 * 2 * 5853 * 16
    assert plan("train.recipe=single_turn_grpo")[1].prompt_tokens < plan()[1].prompt_tokens
    only_openings = planned(QWEN, "contexts.partial=false")[0].training[0]
    assert only_openings.on_statements and only_openings.rows == pytest.approx(5853 * 0.8)
    for name, count in (("train", 7), ("dev", 3), ("other", 5)):  # files of tasks are counted
        (tmp_path / f"{name}.jsonl").write_text('{"id": 1}\n' * count)
    (path := tmp_path / "mine.yaml").write_text(
        "name: mine\ntasks: {family: files, train_file: train.jsonl, dev_file: dev.jsonl}\n"
        f"model: {{path: {ROOT / 'models/tiny-reference'}, prompts: default}}\n"
        "evaluate: {sets: [{name: dev, source: dev}, {name: other, source: other.jsonl, limit: 4}]}\n"
    )
    assert [each.tasks for each in planned(path)[0].sampling if each.name != "perturbed"][:4] == [7, 7, 3, 4]


def test_flags_change_the_plan(capsys):
    def plan(*flags: str) -> dict:
        assert main([str(QWEN), "--json", *flags]) == 0
        return json.loads(capsys.readouterr().out)

    base = plan("--scale", "1", "10")
    first, ten = ({each["name"]: each for each in found["stages"]} for found in base["scales"])
    for name in ("completions", "prompt_tokens", "updated_tokens", "reference_tokens", "cpu_h"):
        assert ten["train"][name] == pytest.approx(10 * first["train"][name])
    assert first["evaluate taco_dev"] == ten["evaluate taco_dev"]
    assert base["totals"]["gpu_h"] == pytest.approx(sum(each["gpu_h"] for each in base["stages"]))
    assert {"formula", "numbers", "value", "unit"} <= base["arithmetic"][0].keys()
    free = ["--assume", "gpu.h100-80.price_h=0", "--assume", "price.cpu_core_h=0"]
    for flags, total, most in (
        (["--gpus", "8"], "wall_h", 1),
        (["--model", "Qwen/Qwen3-4B"], "gpu_h", 1),
        (["--gpu", "h200"], "gpu_h", 1),
        (["--set", "collect.samples=8"], "completion_tokens", 1),
        (["--assume", "training.mfu=0.7"], "gpu_h", 1),
        (free, "usd", 0.5),
    ):
        assert plan(*flags)["totals"][total] < most * base["totals"][total], flags
    assert main([str(QWEN), *free]) == 0
    assert "price.cpu_core_h = 0 USD  [--assume]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([str(QWEN), "--model", "Qwen/Qwen3-9B"], "'Qwen/Qwen3-9B' is not known; did you mean"),
        ([str(QWEN), "--set", "colect.samples=8"], "did you mean 'collect'"),
        ([str(QWEN), "--gpu", "rtx4090", "--gpus", "1"], "does not fit on 1 x rtx4090"),
        ([str(QWEN), "--assume", "sampling.sequences=-1"], "sampling.sequences=-1: must be at least 0"),
        ([str(QWEN), "--assume", "contest.test_bytes=nan"], "must be at least 0"),
        ([str(QWEN), "--assume", "sampling.bandwidth_share=0"], "divides by zero"),
        ([str(QWEN), "--assume", "training.mfu=2"], "at most 1"),
        ([str(QWEN), "--assume", "training.mfuu=0.4"], "did you mean 'training.mfu'?"),
        ([str(QWEN), "--assume", "training.mfu=much"], "NAME=NUMBER"),
        ([str(DEMO), "--gpus", "2"], "--gpus is about GPUs"),
        ([str(DEMO), "--table"], "--table is about GPUs"),
        ([str(QWEN), "--table", "--assume", "sampling.measured_tokens_per_s=9"], "cannot compare several"),
        ([str(QWEN), "--bench", "missing.json"], "cannot read missing.json"),
        (["--scale", "1"], "name a configuration"),
    ],
)  # fmt: skip
def test_wrong_flags_are_said(flags, said):
    with pytest.raises(InputError) as error:
        main(flags)
    assert said in str(error.value)


INFERENCE = {"bench": "inference", "engine": "openai", "model": "Qwen/Qwen3-8B"}
ROUNDS = [
    {"design": "published", "tokens": 1, "wall_s": 1.0},
    {"design": "ours", "tokens": 9000, "wall_s": 3},
]


def test_measured_files_replace_assumptions(tmp_path, capsys):
    rows = [{"way": "plain", "cpu_ms_per_test": 13.5}, {"way": "landlock", "cpu_ms_per_test": 6.5}]
    evaluator, inference = tmp_path / "evaluator.json", tmp_path / "inference.json"
    evaluator.write_text(json.dumps({"bench": "evaluator", "medians": rows}))
    inference.write_text(json.dumps(INFERENCE | {"rounds": ROUNDS}))
    assert main([str(QWEN), "--bench", str(evaluator), str(inference)]) == 0
    text = capsys.readouterr().out
    assert f"tests.overhead_ms = 6.5 ms of CPU  [measured, {evaluator}: way 'landlock']" in text
    assert "tokens_per_s = 3000 tokens/s  [measured" in text
    assert main([str(QWEN), "--summary", "--table"]) == 0
    assert "Qwen/Qwen3-14B" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "field 'bench'"),
        ("{", "not valid JSON"),
        ('{"medians": []}', "field 'bench'"),
        ('{"bench": "data"}', "field 'bench'"),
        ('{"bench": "evaluator", "medians": {}}', "field 'medians'"),
        ('{"bench": "evaluator", "medians": [{"way": "none"}]}', "field 'medians.0.cpu_ms_per_test'"),
        ('{"bench": "evaluator", "medians": []}', "field 'medians' has no way of the evaluator"),
        (json.dumps(INFERENCE | {"engine": "simulated", "rounds": ROUNDS}), "which measures no model"),
        (json.dumps(INFERENCE | {"rounds": ROUNDS[:1]}), "no round of the design 'ours'"),
        (json.dumps(INFERENCE | {"rounds": [ROUNDS[1] | {"wall_s": 0}]}), "field 'rounds.0.wall_s'"),
    ],
)
def test_files_that_are_no_measurements_are_refused_by_name_and_field(tmp_path, content, said):
    (tmp_path / "wrong.json").write_text(content)
    with pytest.raises(InputError, match=r"wrong\.json: ") as error:
        main([str(QWEN), "--bench", str(tmp_path / "wrong.json")])
    assert said in str(error.value)


def test_shapes_are_read_from_their_files():
    assert shape("../models/tiny-reference", ROOT / "models/tiny-reference") == KNOWN["tiny-reference"]
    assert KNOWN["Qwen/Qwen3-8B"].params_b == pytest.approx(8.19, rel=1e-3)  # as its card says


def test_the_made_parts_of_the_docs_are_those_of_the_code(monkeypatch, capsys):
    """The table of assumptions and the worked example."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import plan_page

    text = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    assert plan_page.renewed(text) == text, "run: python scripts/plan_page.py docs/planning.md"
    with pytest.raises(ValueError, match="example"):
        plan_page.renewed(text.replace("<!-- example -->", ""))
    assert main(["--list_assumptions"]) == 0
    assert "training.mfu = 0.35 share" in capsys.readouterr().out
