"""A very small demo from tasks to page: interrupted, killed, continued, finished, refused."""

import json
import signal
import time
from pathlib import Path

import pytest
from run_process import RunProcess, gone

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "tiny-reference-2"
SIZES = """
name: very small
tasks: {{version: 2, train: 16, dev: 4, heldout: 12}}
model: {{path: {model}}}
collect: {{samples: 4, turns: 3}}
train:
  steps: 2
  contexts: 4
  completions: 4
  mini_batches: 1
  overrides: [actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16]
evaluate: {{samples: 2, turns: 3}}
hack_analysis: {{match: exact, judge: {{engine: syntactic}}}}
controls: {{single_turn_training: {control}}}
"""


def demo_in(folder: Path, control: bool) -> RunProcess:
    return RunProcess(folder / "small.yaml", SIZES.format(model=MODEL, control=str(control).lower()))


def check(demo: RunProcess, control: bool) -> None:
    """The finished run has everything that `results.json` promises, and its numbers agree with its rows."""
    found = json.loads((demo.out / "results.json").read_text())
    stages = {stage["name"]: stage for stage in found["stages"]}
    expected = ["data", "collect", "repair", "judge", "contexts", "parquet", "train", "train_single"]
    expected += ["evaluate", "perturb", "hack_analysis", "controls", "report"]
    assert list(stages) == [name for name in expected if control or name != "train_single"]
    for name, stage in stages.items():
        assert stage["wall_s"] > 0 and (stage["rows_out"] > 0 or name == "hack_analysis")  # perhaps none bent
    assert sum(stage["wall_s"] for stage in stages.values()) <= found["wall_s"]
    assert stages["train"]["wall_s"] > 1.0 and found["peak_memory_mib"] > 500
    assert found["evaluator"]["infra_errors"] == 0 and found["evaluator"]["tests"] > 300
    training = found["training"]
    assert (training["steps"], training["masked"], training["samples"]) == (2, 0, 2 * 4 * 4)
    rows = [json.loads(line) for line in (demo.out / "evaluate" / "cobalt_eval.jsonl").open()]
    assert len(rows) == found["tasks"] == 12
    for turn in range(found["turns"]):
        share = sum(sample[turn] == 1 for row in rows for sample in row["all_pass_rates"]) / 24
        assert found["pass_at_1"]["cobalt"][turn] == pytest.approx(share)
    wanted = {"blank_feedback", "other_feedback", "best_of_turns"}
    assert set(found["controls"]) == wanted | ({"single_turn_training"} if control else set())
    report = json.loads((demo.out / "report" / "report.json").read_text())
    assert report["runs"][1]["summary"]["pass_at_1"] == found["pass_at_1"]["cobalt"]
    assert found["sets"]["heldout"]["cobalt"] == pytest.approx(found["pass_at_1"]["cobalt"])
    for name in ("reference", "cobalt"):
        assert name in found["perturbed"]["pass_at_1"]
        cases = (demo.out / "hack_analysis" / f"{name}_errors.jsonl").read_text().splitlines()
        assert found["hacking"][name]["cases"] == len(cases)
        assert found["hacking"][name]["all_turns"]["shown"] == 16  # 4 tasks x 2 dialogues x 2 further turns
        assert sum(found["hacking"][name].get("verdicts", {}).values()) == len(cases)
    assert found["hacking"]["judge"] == "judge: syntactic" and not found["smoke"]
    assert "shown a wrong test" in (demo.out / "report.html").read_text()
    for page in ("report.html", "report/index.html", "report_perturbed/index.html"):
        assert "Pass@1" in (demo.out / page).read_text()


@pytest.mark.slow
def test_a_run_is_interrupted_continued_finished_and_left_alone(tmp_path):
    demo = demo_in(tmp_path, control=False)
    process = demo.start()
    demo.until(process, lambda: "] repair: further turns on feedback ..." in demo.said())
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert gone(demo.out, 1)

    assert demo.run() == 0, demo.said()
    assert "collect: first programs of the reference: unchanged, kept, 16 rows" in demo.said()
    assert f"{demo.out}/report.html" in demo.said()
    assert demo.record("repair")["attempts"] == 2 and demo.record("collect")["attempts"] == 1
    check(demo, control=False)

    before = {path: path.stat().st_mtime_ns for path in demo.out.rglob("*") if path.is_file()}
    started = time.monotonic()
    assert demo.run() == 0
    assert "is finished and nothing has changed" in demo.said() and "Pass@1 by turn" in demo.said()
    assert time.monotonic() - started < 20
    assert demo.run("--seed", "1") == 2
    assert "seed: 0 -> 1" in demo.said() and "FRESH=1" in demo.said()
    changed = {
        path for path, when in before.items() if path.name != "run.log" and path.stat().st_mtime_ns != when
    }
    assert changed == set()


@pytest.mark.full
def test_a_run_with_both_trainings_survives_interrupts_and_kills_anywhere(tmp_path):
    demo = demo_in(tmp_path, control=True)
    for text, more_s, how in (
        ("] collect: first programs of the reference ...", 6, signal.SIGKILL),
        ("] judge: hidden tests ...", 0.5, signal.SIGINT),
        ("] train: GRPO on contexts (verl) ...", 15, signal.SIGINT),
        ("] evaluate on held-out tasks ...", 4, signal.SIGKILL),
        ("] control experiments ...", 3, signal.SIGKILL),
    ):
        process = demo.start()
        demo.until(process, lambda said=text: said in demo.said())
        time.sleep(more_s)
        process.send_signal(how)
        assert process.wait(timeout=120) == (130 if how == signal.SIGINT else -how)
        assert gone(demo.out, 30)
    assert demo.run() == 0, demo.said()
    check(demo, control=True)
    for name in ("collect/single", "collect/judged", "evaluate/cobalt_eval"):
        ids = [json.loads(line)["id"] for line in (demo.out / f"{name}.jsonl").open()]
        assert len(ids) == len(set(ids)) == (16 if name.startswith("collect") else 12)
