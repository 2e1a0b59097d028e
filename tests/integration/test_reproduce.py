"""Scripts of scripts/reproduce: what they promise, and each of them with SMOKE=1."""

import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scripts" / "reproduce"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.sh") if ".inc" not in path.name)
RESULTS = {
    "main_livecodebench", "taco_dev", "perturbed", "offline_rl",
    "ablation_contexts", "ablation_selection", "ablation_turns",
}  # fmt: skip


def call(name: str, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(FOLDER / f"{name}.sh"), *flags],
        env=os.environ | variables,
        cwd="/",
        capture_output=True,
        text=True,
    )


@cache
def runs(name: str) -> list[str]:
    """The runs of a script: configuration and settings."""
    done = call(name, PLAN="list")
    assert done.returncode == 0, done.stderr
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def header(name: str) -> dict[str, str]:
    text = (FOLDER / f"{name}.sh").read_text()
    return dict(re.findall(r"^# (Configuration|Expected|Published): +(.+)$", text, re.MULTILINE))


def test_there_is_a_script_for_every_result():
    assert set(SCRIPTS) == RESULTS | {"all"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_names_configuration_cost_and_published_figure(name):
    said = header(name)
    assert set(said) == {"Configuration", "Expected", "Published"}
    used = {run.split()[0] for run in runs(name)}
    assert used == set(re.findall(r"configs/[\w.-]+\.yaml", said["Configuration"]))
    assert all((ROOT / config).is_file() for config in used)
    if name == "main_livecodebench":
        assert "+9.0" in said["Published"] and "+6.2" in said["Published"]
    elif name == "offline_rl":
        assert "small models and hard problems" in said["Published"]
    elif name != "all":
        assert said["Published"] == "not given in the abstract"


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_expected_cost_is_what_cobalt_plan_says(name, monkeypatch):
    from cobalt.run.cost import line

    monkeypatch.chdir(ROOT)
    assert header(name)["Expected"] == line(runs(name)), (
        f"`PLAN=write scripts/reproduce/{name}.sh` puts it into the header"
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_variant_is_a_valid_run(name):
    from cobalt.run.config import load

    for run in runs(name):
        config, *settings = run.split()
        load(ROOT / config, settings)
        load(ROOT / config, settings, smoke=True)


def test_all_has_the_runs_of_every_script():
    assert set(runs("all")) == {run for name in RESULTS for run in runs(name)}


def test_help_and_wrong_arguments():
    done = call("offline_rl", "--help")
    assert done.returncode == 0 and "Offline RL" in done.stdout and "SMOKE=1" in done.stdout
    done = call("offline_rl", "--nonsense")
    assert done.returncode == 2 and "takes no arguments" in done.stderr
    done = call("offline_rl", MODELS="no-such-model", PLAN="list")
    assert done.returncode == 2 and "configs/no-such-model.yaml does not exist" in done.stderr


def test_one_page_has_every_table(tmp_path):
    from cobalt.errors import InputError
    from cobalt.run.gather import gather

    with pytest.raises(InputError, match="there are no reports"):
        gather(tmp_path)
    for report, table in (("taco_dev_a", "steps"), ("taco_dev_a", "pass_at_1"), ("offline_rl_b", "cost")):
        folder = tmp_path / f"report_{report}" / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{table}.md").write_text(
            f"**{table} of {report}**\n\n| a | b |\n|---|---|\n| <b>1</b> | 2 |\n"
        )
    page = gather(tmp_path).read_text()
    assert page.index("cost of offline_rl_b") < page.index("pass_at_1 of taco_dev_a")
    assert page.index("pass_at_1 of taco_dev_a") < page.index("steps of taco_dev_a")
    assert page.count("<table>") == 3 and "<td><b>" not in page
    assert 'href="report_taco_dev_a/index.html"' in page and "smoke run" not in page
    run = tmp_path / "qwen3-8b" / "cobalt"
    run.mkdir(parents=True)
    for smoke in (False, True):
        (run / "results.json").write_text(json.dumps({"smoke": smoke}))
        assert ("smoke run" in gather(tmp_path).read_text()) is smoke


def test_what_runs_share_is_planned_once():
    from cobalt.run.cost import estimates, line

    one = "configs/tiny.yaml"
    found = list(estimates([one, one + " ", f"{one} train.steps=10"]))
    assert len(found) == 2  # the same run is made once
    models = [
        [each.models for each in plan.workload.sampling if each.name.startswith("evaluate")] for plan in found
    ]
    assert models == [[3], [2]]  # the reference is evaluated by the first
    assert line([one]) == line([one, one])


def smoke(name: str, out: Path) -> float:
    """Run a script with SMOKE=1; returns its seconds."""
    started = time.monotonic()
    done = call(name, SMOKE="1", OUT=str(out), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return time.monotonic() - started


def check_runs(name: str, out: Path) -> None:
    """Every run of a script has all stages and results that say what they are."""
    for results in out.glob("*/*/results.json"):
        found = json.loads(results.read_text())
        assert found["smoke"] is True and found["evaluator"]["infra_errors"] == 0
        assert found["training"]["steps"] == 2 and found["training"]["masked"] == 0
        stages = [stage["name"] for stage in found["stages"]]
        assert stages[0] == "data" and stages[-1] == "report" and {"train", "evaluate"} <= set(stages)
    made = {f"{run.split()[0].removeprefix('configs/').removesuffix('.yaml')}" for run in runs(name)}
    assert {path.parent.parent.name for path in out.glob("*/*/results.json")} >= made


@pytest.mark.slow
def test_one_script_from_tasks_to_tables(tmp_path):
    smoke("taco_dev", tmp_path)
    check_runs("taco_dev", tmp_path)
    for model in ("qwen3-8b", "r1-distill-llama-8b"):
        table = (tmp_path / f"report_taco_dev_{model}" / "tables" / "pass_at_1.md").read_text()
        assert "reference" in table and "cobalt" in table
    second = json.loads((tmp_path / "r1-distill-llama-8b" / "cobalt" / "stages" / "train.json").read_text())
    assert second["shared"] is True  # both models are the tiny one here: trained once


@pytest.mark.full
def test_all_scripts_and_one_page_with_every_table(tmp_path):
    seconds = smoke("all", tmp_path)
    check_runs("all", tmp_path)
    page = (tmp_path / "index.html").read_text()
    for name in RESULTS - {"main_livecodebench"}:
        assert f"report_{name}" in page, name
    for arm in ("reference", "cobalt", "single_turn_grpo", "mt_grpo", "verpo", "cobalt_ptb", "no_partial",
                "random", "two_turns", "rloo", "grpo", "exponential", "rejection_sft"):  # fmt: skip
        assert arm in page, arm
    assert "report_livecodebench_qwen3-8b" in page and "report_livecodebench_r1-distill-llama-8b" in page
    arm = tmp_path / "offline-codenet/exponential"
    assert not (arm / "stages/collect.json").exists()  # from stored submissions
    assert "objective: exponential" in (arm / "train/launches/001/config.yaml").read_text()
    again = smoke("all", tmp_path)
    assert again < seconds / 2  # everything is kept, only tables are made again


@pytest.mark.full
def test_the_small_gpu_configuration_end_to_end_at_smoke_size(tmp_path):
    flags = ["configs/qwen3-0.6b-lora-24gb.yaml", "--smoke", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "cobalt", "run", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert json.loads((tmp_path / "out" / "results.json").read_text())["name"] == "qwen3-0.6b-lora-24gb"
