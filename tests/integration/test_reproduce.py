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
from chat_server import chat_server
from combine_reports import GAINS, OFFLINE, UNKNOWN, beside, page, reported
from cost import estimates, line
from report_data import evaluated as evaluated_rows

from cobalt.config.load import load
from cobalt.errors import InputError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scripts" / "reproduce"

SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.sh") if ".inc" not in path.name)
RESULTS = {
    "main_livecodebench", "taco_dev", "perturbed", "released", "proprietary", "offline_rl",
    "ablation_contexts", "ablation_selection", "ablation_turns",
}  # fmt: skip
NO_RUNS = {"proprietary"}  # not runs of a configuration: nothing is trained
LACKING = ("released", "proprietary")


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
    found = re.findall(r"^# (Configuration|Expected|Published): +(.+(?:\n# {10}.+)*)$", text, re.MULTILINE)
    return {name: re.sub(r"\s*\n#\s*", " ", value) for name, value in found}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_names_configuration_and_published_figure_and_its_runs_are_valid(name):
    assert set(SCRIPTS) == RESULTS | {"all"}
    said = header(name)
    assert set(said) == {"Configuration", "Expected", "Published"}
    used = {run.split()[0] for run in runs(name)}
    named = set(re.findall(r"configs/[\w.-]+\.yaml", said["Configuration"]))
    assert used == named or name in NO_RUNS
    assert all((ROOT / config).is_file() for config in named)
    if name in ("main_livecodebench", "released"):
        assert all(f"{gain:+.1f}" in said["Published"] for gain in GAINS.values())
    elif name == "offline_rl":
        assert said["Published"] == OFFLINE
    elif name != "all":
        assert said["Published"] == UNKNOWN
    for run in runs(name):
        config, *settings = run.split()
        load(ROOT / config, settings)
        load(ROOT / config, settings, smoke=True)


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - NO_RUNS))
def test_the_expected_cost_is_what_cobalt_plan_says(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert header(name)["Expected"] == line(runs(name)), (
        f"`PLAN=write scripts/reproduce/{name}.sh` puts it into the header"
    )


def test_what_models_of_providers_are_asked_is_counted():
    config = load(ROOT / "configs/qwen3-8b.yaml")
    programs, first = config.evaluate.samples * config.evaluate.turns, config.evaluate.samples
    sets = {each.name: each.expected or config.tasks.expected_dev for each in config.evaluate.sets}
    asked = sets["livecodebench"] * programs + sets["taco_dev"] * (2 * programs - first)
    assert f"{asked:,} completions of each model" in header("proprietary")["Expected"]
    assert call("proprietary", PLAN="1").stdout.strip() == header("proprietary")["Expected"]
    assert runs("proprietary") == []


def test_all_has_the_runs_of_every_script_and_what_they_share_is_planned_once():
    assert set(runs("all")) == {run for name in RESULTS for run in runs(name)}
    both = set(runs("main_livecodebench")) & set(runs("perturbed"))
    online = [run for run in both if "mt_grpo" in run or "verpo" in run]
    assert len(online) == 4 and not any("perturb=null" in run for run in online)
    one = "configs/tiny.yaml"
    found = list(estimates([one, one + " ", f"{one} train.steps=10"]))
    models = [
        [each.models for each in plan.workload.sampling if each.name.startswith("evaluate")] for plan in found
    ]
    assert models == [[3], [2]]  # the same run is made once, the reference is evaluated by the first
    assert line([one]) == line([one, one])


def test_help_and_wrong_arguments(tmp_path):
    done = call("offline_rl", "--help")
    assert done.returncode == 0 and "Offline RL" in done.stdout and "SMOKE=1" in done.stdout
    done = call("offline_rl", "--nonsense")
    assert done.returncode == 2 and "takes no arguments" in done.stderr
    done = call("offline_rl", MODELS="no-such-model", PLAN="list")
    assert done.returncode == 2 and "configs/no-such-model.yaml does not exist" in done.stderr
    done = call("proprietary", OUT=str(tmp_path / "out"), LLMS="gpt-5-mini-2025-08-07", OPENAI_API_KEY="")
    assert done.returncode == 2 and "set OPENAI_API_KEY" in done.stderr and not (tmp_path / "out").exists()


def test_one_page_has_every_table(tmp_path):
    with pytest.raises(InputError, match="there are no reports"):
        page(tmp_path)
    for report, table in (("taco_dev_a", "steps"), ("taco_dev_a", "pass_at_1"), ("ablation_turns_b", "cost")):
        (folder := tmp_path / f"report_{report}" / "tables").mkdir(parents=True, exist_ok=True)
        made_report(folder.parent, evaluated("reference"), evaluated("cobalt"))
        text = f"**{table} of {report}**\n\n| a | b |\n|---|---|\n| <b>1</b> | 2 |\n"
        (folder / f"{table}.md").write_text(text)
    (run := tmp_path / "qwen3-8b" / "cobalt").mkdir(parents=True)
    for smoke in (True, False):
        (run / "results.json").write_text(json.dumps({"smoke": smoke}))
        text = page(tmp_path).read_text()
        assert ("smoke run" in text) is smoke and ("published" in text) is not smoke
    order = ("cost of ablation_turns_b", "pass_at_1 of taco_dev_a", "steps of taco_dev_a")
    assert sorted(order, key=text.index) == list(order)
    assert text.count("<table>") == 3 and "<td><b>" not in text
    assert text.count("<li>cobalt: +5.0 [+1.0, +9.0] points over the reference; published: not given") == 2


def evaluated(name, bent=None):
    """A run as it stands in `report.json`."""
    turns = None if bent is None else {"all_turns": {"rate": bent, "ci95": [bent / 2, 2 * bent]}}
    summary = {"pass_at_1": [0.1, 0.3], "ci95": [[0.05, 0.15], [0.2, 0.4]]}
    return {"name": name, "summary": summary, "errors": turns}


def made_report(folder, *runs):
    """A report with the gains of all runs over the first, at two turns."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"a": runs[0]["name"], "b": run["name"], "turn": turn, "points": 5.0 * turn, "ci95": [1.0, 9.0]}
        for run in runs[1:]
        for turn in (1, 0)
    ]
    made = {"runs": runs, "comparison": {"comparisons": rows} if rows else None}
    (folder / "report.json").write_text(json.dumps(made))
    return folder


def test_what_is_published_stands_beside_what_was_measured(tmp_path):
    arms = [evaluated(name) for name in ("reference", "cobalt", "mt_grpo", "single_turn_grpo")]
    measured = "+5.0 [+1.0, +9.0] points over the reference"

    def told(name, *runs, smoke=False):
        return beside(made_report(tmp_path / f"report_{name}", *runs), smoke=smoke)

    for model, gain in GAINS.items():
        for name in (f"livecodebench_{model}", f"livecodebench_{model}-released"):
            said = told(name, *arms)
            assert said[0].startswith(name) and said[3].endswith(f"published: {UNKNOWN}")
            assert said[1] == f"- cobalt: {measured}; published: up to {gain:+.1f} points"
            assert said[2] == f"- mt_grpo: {measured}; published: below Cobalt, the figure is {UNKNOWN}"
    assert all(line.endswith(UNKNOWN) for line in told("livecodebench_another", *arms)[1:])
    bent = told("perturbed_qwen3-8b", evaluated("reference", 0.125), evaluated("cobalt", 0.0))
    assert bent[1].startswith("- reference: 12.5 % of programs bent [6.2, 25.0]; published:")
    assert bent[2].startswith(f"- cobalt: {measured}, 0.0 % of programs bent [0.0, 0.0]; published:")
    assert reported("offline_rl_offline-codenet", "rloo") == OFFLINE
    alone = ("livecodebench_proprietary", evaluated("gpt-5-mini"))
    assert told(*alone)[1] == f"- gpt-5-mini: Pass@1 30.0 % [20.0, 40.0]; published: {UNKNOWN}"
    assert told(*alone, smoke=True) == ["livecodebench_proprietary: a smoke run, compared with nothing"]


STANDIN = """#!/bin/sh
# Everything is real but `cobalt run`, which only notes its words and leaves evaluated rows.
case "$*" in
  "-m cobalt run "*)
    echo "$*" >> runs.txt
    while [ "$1" != --out ]; do shift; done
    mkdir -p "$2/evaluate/taco_dev"
    for name in reference cobalt; do cp rows.jsonl "$2/evaluate/taco_dev/${{name}}_eval.jsonl"; done ;;
  *) exec {python} "$@" ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A folder like a clone, with scripts that call the stand-in; runs one and returns what it said."""
    folder = tmp_path / "clone"
    files = {name: (FOLDER / name).read_text() for name in ("all.sh", "common.inc.sh", "combine_reports.py")}
    files |= {f"{name}.sh": f"#!/bin/sh\nexit {2 * (name in LACKING)}\n" for name in RESULTS}
    files["taco_dev.sh"] = (FOLDER / "taco_dev.sh").read_text()
    files["../../.venv/bin/python"] = STANDIN.format(python=sys.executable)
    for name, text in files.items():
        path = folder / "scripts" / "reproduce" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / "configs").symlink_to(ROOT / "configs")
    evaluated_rows(folder / "rows.jsonl", [0.25, 0.5], n=6)

    def run(name: str) -> subprocess.CompletedProcess[str]:
        given = {key: value for key, value in os.environ.items() if key not in ("OUT", "SMOKE", "PLAN")}
        command = [folder / "scripts" / "reproduce" / f"{name}.sh"]
        return subprocess.run(command, env=given | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)

    run.folder = folder
    return run


def test_scripts_from_runs_to_tables_and_all_goes_on_without_what_is_lacking(clone):
    out, models = clone.folder / "outputs" / "reproduce", ("qwen3-8b", "r1-distill-llama-8b")
    done = clone("all")
    assert done.returncode == 2 and "not run, see what was said above: released proprietary" in done.stderr
    ran = [line.split() for line in (clone.folder / "runs.txt").read_text().splitlines()]
    assert [words[3] for words in ran] == [f"configs/{model}.yaml" for model in models]
    assert all(words[6:8] == ["--share", "outputs/reproduce/shared"] for words in ran)
    page = (out / "index.html").read_text()
    for model in models:
        table = (out / f"report_taco_dev_{model}" / "tables" / "pass_at_1.md").read_text()
        assert "reference" in table and "cobalt" in table and f"taco_dev_{model}" in page
        told = rf"taco dev {model} +cobalt +75.0 \[cannot tell\] +\+0.0 \[cannot tell\] +not given"
        assert re.search(told, done.stdout)
    (clone.folder / "scripts/reproduce/perturbed.sh").write_text("#!/bin/sh\nexit 1\n")
    (clone.folder / "scripts/reproduce/taco_dev.sh").write_text("#!/bin/sh\nexit 0\n")
    done = clone("all")
    assert done.returncode == 1 and "scripts/reproduce/released.sh" not in done.stdout


def smoke(name: str, out: Path) -> float:
    """Run a script with SMOKE=1; returns its seconds."""
    started = time.monotonic()
    done = call(name, SMOKE="1", OUT=str(out), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "a smoke run, compared with nothing" in done.stdout and "published:" not in done.stdout
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


@pytest.mark.full
def test_models_of_providers_through_litellm(tmp_path):
    """Against a local service, two models; the same programs begin clean and perturbed dialogues."""
    names, out = "gpt-5-mini-2025-08-07 local/model", tmp_path
    with chat_server() as (url, requests):
        done = call("proprietary", SMOKE="1", OUT=str(out), BASE_URL=url, OPENAI_API_KEY="", LLMS=names)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert {request["model"] for request in requests} == set(names.split())
    for result in ("livecodebench", "taco_dev", "perturbed"):
        table = (out / f"report_{result}_proprietary" / "tables" / "pass_at_1.md").read_text()
        assert "gpt-5-mini-2025-08-07" in table and "local_model" in table
    clean, perturbed = (
        {
            row["id"]: row["responses"]
            for row in map(json.loads, (out / f"proprietary/local_model/{name}.jsonl").open())
        }
        for name in ("taco_dev", "perturbed")
    )
    assert perturbed == {key: clean[key] for key in perturbed} != {}


@pytest.mark.full
def test_all_scripts_and_one_page_with_every_table(tmp_path):
    seconds = smoke("all", tmp_path)
    check_runs("all", tmp_path)
    second = json.loads((tmp_path / "r1-distill-llama-8b" / "cobalt" / "stages" / "train.json").read_text())
    assert second["shared"] is True  # both models are the tiny one here: trained once
    page = (tmp_path / "index.html").read_text()
    for name in (*RESULTS - {"main_livecodebench", "released", "proprietary"}, "perturbed_proprietary",
                 "livecodebench_qwen3-8b-released", "livecodebench_ptb_qwen3-8b",
                 "livecodebench_r1-distill-llama-8b"):  # fmt: skip
        assert f"report_{name}" in page, name
    hacking = (tmp_path / "report_perturbed_r1-distill-llama-8b" / "tables" / "hacking.md").read_text()
    online = ("reference", "cobalt", "cobalt_ptb", "mt_grpo", "verpo")
    assert all(f"| {arm} | all |" in hacking for arm in online)
    for arm in (*online, "single_turn_grpo", "no_partial", "random", "two_turns", "rloo", "grpo",
                "exponential", "rejection_sft"):  # fmt: skip
        assert arm in page, arm
    arm = tmp_path / "offline-codenet/exponential"
    assert not (arm / "stages/collect.json").exists()  # from stored submissions
    assert "objective: exponential" in (arm / "train/launches/001/config.yaml").read_text()
    assert smoke("all", tmp_path) < seconds / 2  # everything is kept, only tables are made again
