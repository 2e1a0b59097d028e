"""`cobalt plan CONFIG` from file to output: configurations, measured files, scales, the table in the docs."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from cobalt.commands import plan_page
from cobalt.commands.plan import main
from cobalt.errors import InputError
from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.planning import scaling
from cobalt.planning.assumptions import Assumptions
from cobalt.planning.bench import apply
from cobalt.planning.estimate import estimate
from cobalt.planning.from_config import workload
from cobalt.planning.models import KNOWN, shape
from cobalt.planning.recipes import read
from cobalt.prompts import TINY as TINY_PROMPTS
from cobalt.run.config import load
from cobalt.tasks import tiny
from cobalt.training.reward_overlap import Load

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
TINY, PAPER = CONFIGS / "tiny.yaml", CONFIGS / "qwen3-8b.yaml"


def planned(path: Path, *flags: str) -> dict:
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main([str(path), "--json", *flags]) == 0
    return json.loads(said.getvalue())


def stage(answer: dict, name: str) -> dict:
    return next(each for each in answer["stages"] if each["name"] == name)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_configuration_has_a_plan(path, capsys):
    assert main([str(path)]) == 0
    text = capsys.readouterr().out
    config = load(path)
    whose = " (dev)" if config.collected == ["dev"] else ""
    for part in (
        "lengths", *((f"collect{whose}", f"repair{whose}") if config.collected else ()), "train", "disk",
        "money", "assumptions used",
    ):  # fmt: skip
        assert f"\n{part}\n" in text
    assert text.count("skipped (collect.trajectories is given)") == (3 if whose else 0)
    assert "GPU hours" in text and "CPU hours" in text and " GB" in text and "wall time" in text
    small = workload(load(path, smoke=True), path)
    assert not small.on_gpu and estimate(small).total("wall_h") < 1


def spoken(tasks: int, turns: int) -> tuple[list[int], int]:
    """Prompt tokens of each turn, and tokens of all first programs, of dialogues on the demo's tasks whose
    every program guesses what its statement leaves open: one dialogue per task, in the reference's tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-reference")
    rng, prompts, programs = random.Random(0), [0] * turns, 0
    for spec, vague, tests in tiny.draw_specs("train", tasks, 0):
        messages = TINY_PROMPTS.messages(tiny.statement(spec, vague))
        for turn in range(turns):
            prompts[turn] += len(
                tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            )
            guess = tiny.redraw(rng, spec, vague)
            text = f"```python\n{tiny.program(guess)}\n```"
            programs += 0 if turn else len(tokenizer(text, add_special_tokens=False)["input_ids"]) + 1
            told = None
            for given, expected in reversed(tests[: tiny.N_PUBLIC]):
                output = tiny.output_of(guess, [int(number) for number in given.split()])
                told = told if output == expected else wrong_answer_feedback(given, output or "", expected)
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": TINY_PROMPTS.feedback_message(told)},
            ]
    return prompts, programs


def test_the_demo_is_planned_in_its_true_size():
    """Programs as configured; tokens within 10 % of those of the tasks' own statements and programs."""
    answer, config = planned(TINY), load(TINY)
    collect, repair, train = (stage(answer, name) for name in ("collect", "repair", "train"))
    samples, turns = config.collect.samples, config.collect.turns
    assert (collect["completions"], repair["completions"], train["completions"]) == (1200, 2400, 60 * 16 * 8)
    prompts, programs = spoken(config.tasks.train, turns)
    assert collect["prompt_tokens"] == pytest.approx(samples * prompts[0], rel=0.1)
    assert collect["completion_tokens"] == pytest.approx(samples * programs, rel=0.1)
    assert repair["prompt_tokens"] == pytest.approx(samples * sum(prompts[1:]), rel=0.1)
    assert repair["completion_tokens"] == pytest.approx(samples * programs * (turns - 1), rel=0.1)
    assert answer["totals"]["gpu_h"] == 0 and 3 / 60 < answer["totals"]["wall_h"] < 30 / 60


def test_the_papers_configuration():
    work = workload(load(PAPER), PAPER)
    assert (work.model.name, work.device, work.gpus, work.responses) == (
        "Qwen/Qwen3-8B",
        "h100-80",
        4,
        "thinking",
    )
    names = [each.name for each in work.sampling]
    assert names == [
        "collect", "repair", "collect (dev)", "repair (dev)", "evaluate livecodebench", "evaluate taco_dev",
        "perturbed",
    ]  # fmt: skip
    assert [(each.tasks, each.samples, each.turns, each.models) for each in work.sampling] == [
        (5853, 16, 1, 1), (5853, 16, 3, 1), (250, 16, 1, 1), (250, 16, 3, 1),
        (175, 16, 9, 2), (250, 16, 9, 2), (250, 16, 9, 2),
    ]  # fmt: skip
    (train,) = work.training
    assert (train.epochs, train.contexts, train.completions, train.steps) == (2, 128, 16, None)
    assert train.reference and train.old_log_probs and train.offload and not train.lora
    assert (train.validate_every, train.validation_tasks, train.memory_share) == (10, 250, 0.7)
    assert train.validation_contexts == pytest.approx(0.8 * (1 + 2.5))  # as contest.* of the assumptions say
    answer = planned(PAPER)
    assert stage(answer, "collect")["completions"] == 5853 * 16
    assert stage(answer, "repair: hidden tests")["cpu_h"] > stage(answer, "repair")["cpu_h"]
    # Some hundred GPU hours, of which training takes most: the order of magnitude of such trainings.
    assert 300 < answer["totals"]["gpu_h"] < 3000
    assert stage(answer, "train")["gpu_h"] > answer["totals"]["gpu_h"] / 2


def test_recipes_have_the_stages_that_they_need():
    def plan(*settings: str) -> tuple[list[str], dict]:
        work = workload(load(PAPER, settings), PAPER)
        found = estimate(work).as_dict()
        return [each.name for each in work.sampling[:-3]], stage(found, "train")

    both = ["collect", "repair", "collect (dev)", "repair (dev)"]
    assert plan()[0] == both
    assert plan("contexts.validation=openings")[0] == both[:2]
    assert plan("collect.trajectories=a/b")[0] == both[2:]
    assert plan("collect.trajectories=a/b", "collect.dev_trajectories=a/b")[0] == []
    assert plan("train.recipe=cobalt_ptb")[0] == [*both, "repair on perturbed tests"]
    names, stored = plan("train.recipe=offline_rl")
    assert names == ["collect"] and stored["completions"] == 0 and stored["updated_tokens"] > 0
    names, online = plan("train.recipe=mt_grpo")
    assert names == [] and online["completions"] > 3 * 2 * 5853 * 16
    assert plan("train.recipe=single_turn_grpo")[1]["prompt_tokens"] < plan()[1]["prompt_tokens"]
    only_openings = workload(load(PAPER, ["contexts.partial=false"]), PAPER).training[0]
    assert only_openings.on_statements and only_openings.rows == pytest.approx(5853 * 0.8)


def test_devices_models_settings_and_assumptions_change_the_plan():
    base = planned(PAPER)
    assert planned(PAPER, "--gpu", "a100-80")["totals"]["gpu_h"] > base["totals"]["gpu_h"]
    assert planned(PAPER, "--gpus", "8")["totals"]["wall_h"] < base["totals"]["wall_h"]
    assert planned(PAPER, "--model", "Qwen/Qwen3-4B")["totals"]["gpu_h"] < base["totals"]["gpu_h"]
    half = planned(PAPER, "--set", "collect.samples=8", "--set", "evaluate.turns=3")
    assert stage(half, "collect")["completions"] == 5853 * 8
    free = planned(PAPER, "--assume", "gpu.h100-80.price_h=0", "--assume", "price.cpu_core_h=0")
    assert free["totals"]["usd"] < base["totals"]["usd"] / 2
    for wrong, message in (
        (["--model", "Qwen/Qwen3-9B"], r"shape of model 'Qwen/Qwen3-9B' is not known; did you mean"),
        (["--set", "colect.samples=8"], "did you mean 'collect'"),
        (["--assume", "training.mfoo=1"], "did you mean 'training.mfu'"),
        (["--gpu", "rtx4090", "--gpus", "1"], "does not fit on 1 x rtx4090"),
        (["--cores", "4"], "--cores is for evaluator cores without a configuration"),
    ):
        with pytest.raises(InputError, match=message):
            main([str(PAPER), *wrong])
    with pytest.raises(InputError, match="--scale is about the run of a configuration"):
        main(["--scale", "1"])
    for flags, message in (
        (["--table"], "--table is about GPUs"),
        (["--gpus", "2"], "CPU profile has no GPUs"),
    ):
        with pytest.raises(InputError, match=message):
            main([str(TINY), *flags])


def test_scales_and_where_parts_saturate(capsys):
    assert main([str(PAPER), "--summary", "--scale", "1", "10", "100", "--table"]) == 0
    text = capsys.readouterr().out
    for part in (
        "evaluator cores", "inference replicas", "training GPUs", "disk", "one process", "memory",
        "x 100: contexts", "Qwen/Qwen3-14B",
    ):  # fmt: skip
        assert part in text, part
    work, a, factors = workload(load(PAPER), PAPER), Assumptions(), (1, 10, 100)
    found = scaling.scales(work, a, factors)
    grown = [next(each for each in plan.stages if each.name == "train").completions for plan in found]
    assert [n / grown[0] for n in grown] == pytest.approx([1, 10, 100])
    sheet = scaling.saturation(found, factors, a)
    least = next(line for line in sheet.lines if line.name == "train: shortest step").value
    # The wall time of ever more GPUs goes towards what the sheet says, and not below.
    many = estimate(replace(work, gpus=4096), a)
    step = next(x.value for x in many.arithmetic if (x.section, x.name) == ("train", "a step"))
    assert least < step < 1.5 * least
    answer = planned(TINY, "--scale", "1", "10")
    assert [each["factor"] for each in answer["scales"]] == [1, 10]


def test_measured_files_replace_assumptions(tmp_path, capsys):
    rows = [{"way": "plain", "cpu_ms_per_test": 13.5}, {"way": "landlock", "cpu_ms_per_test": 6.5}]
    evaluator = tmp_path / "evaluator.json"
    evaluator.write_text(json.dumps({"bench": "evaluator", "medians": rows}))
    rounds = [
        {"design": "published", "tokens": 1, "wall_s": 1.0},
        {"design": "ours", "tokens": 9000, "wall_s": 3.0},
    ]
    inference = tmp_path / "inference.json"
    facts = {"bench": "inference", "engine": "openai", "model": "Qwen/Qwen3-8B"}
    inference.write_text(json.dumps(facts | {"rounds": rounds}))
    assert main([str(PAPER), "--bench", str(evaluator), str(inference)]) == 0
    text = capsys.readouterr().out
    assert f"tests.overhead_ms = 6.5 ms of CPU  [measured, {evaluator}: way 'landlock']" in text
    assert "sampling at the measured rate" in text and "tokens_per_s = 3000 tokens/s  [measured" in text
    wrong = tmp_path / "wrong.json"
    for content, message in (
        ("[1]", "wrong.json: the file must be a JSON object"),
        ("{", "wrong.json: not valid JSON"),
        ('{"medians": []}', "field 'bench' is missing"),
        ('{"bench": "data"}', "field 'bench' must be one of evaluator, inference, got 'data'"),
        ('{"bench": "evaluator", "medians": {}}', r"field 'medians' has the wrong type \(dict\)"),
        ('{"bench": "evaluator", "medians": [{"way": "none"}]}', "'medians.0.cpu_ms_per_test' is missing"),
        ('{"bench": "evaluator", "medians": [3]}', "field 'medians.0' must be a JSON object"),
        ('{"bench": "evaluator", "medians": []}', "field 'medians' has no way of the evaluator"),
        (json.dumps(facts | {"engine": "simulated", "rounds": rounds}), "which measures no model"),
        (json.dumps(facts | {"rounds": rounds[:1]}), "field 'rounds' has no round of the design 'ours'"),
        (json.dumps(facts | {"rounds": [{"design": "ours", "tokens": True}]}), "'rounds.0.tokens' has"),
        (json.dumps(facts | {"rounds": [{"design": "ours", "tokens": 5, "wall_s": 0}]}), "must be above 0"),
    ):  # fmt: skip
        wrong.write_text(content)
        with pytest.raises(InputError, match=message):
            apply(Assumptions(), wrong)
    with pytest.raises(InputError, match="cannot read"):
        apply(Assumptions(), tmp_path / "missing.json")


def test_settings_of_recipes_are_those_of_the_files():
    online = read("verpo", "gpu", "published", ["trainer.test_freq=5"])
    assert online.number("cobalt.dialogue.turns", 1) == 3 and online.number("trainer.test_freq", -1) == 5
    assert online.flag("actor_rollout_ref.actor.fsdp_config.optimizer_offload")
    assert read("rejection_sft", "gpu", "published").text("cobalt.method") == "offline"
    tiny = read("cobalt", "cpu", "tiny")
    assert (
        not tiny.flag("actor_rollout_ref.actor.use_kl_loss")
        and tiny.number("trainer.max_actor_ckpt_to_keep", 0) == 2
    )
    with pytest.raises(InputError, match="cannot read"):
        read("nothing", "gpu", "published")


def test_shapes_of_models():
    tiny = shape("../models/tiny-reference", ROOT / "models/tiny-reference")
    assert (tiny.layers, tiny.heads, tiny.kv_heads, tiny.head_dim) == (4, 4, 2, 24)
    assert tiny.params_b == pytest.approx(shape("tiny-reference").params_b, rel=0.01)
    for known in KNOWN.values():  # the table agrees with itself
        assert known.sizes.parameters / 1e9 == pytest.approx(known.params_b, rel=0.002), known.name
    # 2 x 36 layers x 8 heads x 128 x 2 bytes
    assert shape("Qwen/Qwen3-8B").cache_mb(2) == pytest.approx(147.456)


def test_assumptions_shared_with_the_simulation_of_a_step_agree():
    a, load_ = Assumptions(), Load()
    assert (a["contest.test_ms"], a["contest.test_sigma"], a["contest.slow_share"], a["contest.tests"]) == (
        load_.test_ms, load_.test_sigma, load_.slow_share, load_.tests,
    )  # fmt: skip
    assert (a["thinking.response_tokens"], a["thinking.response_sigma"]) == (
        load_.median_tokens,
        load_.length_sigma,
    )


def test_the_made_parts_of_the_docs_are_those_of_the_code(monkeypatch, capsys):
    """The table of assumptions and the worked example."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    assert plan_page.renewed(text) == text, "run: python -m cobalt.commands.plan_page docs/planning.md"
    with pytest.raises(ValueError, match="example"):
        plan_page.renewed(text.replace("<!-- example -->", ""))
    assert main(["--list_assumptions"]) == 0
    assert "training.mfu = 0.35 share" in capsys.readouterr().out


def test_files_of_tasks_are_counted(tmp_path):
    for name, count in (("train", 7), ("dev", 3), ("other", 5)):
        (tmp_path / f"{name}.jsonl").write_text('{"id": 1}\n' * count)
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ntasks: {family: files, train_file: train.jsonl, dev_file: dev.jsonl}\n"
        f"model: {{path: {ROOT / 'models/tiny-reference'}, prompts: default}}\n"
        "evaluate: {sets: [{name: dev, source: dev}, {name: other, source: other.jsonl, limit: 4}]}\n"
    )
    work = workload(load(path), path)
    assert [each.tasks for each in work.sampling if each.name != "perturbed"][:4] == [7, 7, 3, 4]
    assert work.tasks_kind == "contest" and work.responses == "plain"
    fewer = workload(load(path, ["tasks.train=2"]), path)
    assert fewer.sampling[0].tasks == fewer.context_tasks == 2
