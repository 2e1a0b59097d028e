"""A very small demo from tasks to page: interrupted, killed, continued, finished, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "tiny-reference"
SIZES = """
name: very small
tasks: {{train: 16, dev: 4, heldout: 12}}
model: {{path: {model}}}
collect: {{samples: 4, turns: 3}}
train:
  steps: 2
  contexts: 4
  completions: 4
  mini_batches: 1
  overrides: [actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16]
evaluate: {{samples: 2, turns: 3}}
controls: {{single_turn_training: {control}}}
"""


class Demo:
    """A run in a process of its own, as `make demo` starts it."""

    def __init__(self, folder: Path, control: bool) -> None:
        self.out, self.log = folder / "out", folder / "log"
        self.config = folder / "small.yaml"
        self.config.write_text(SIZES.format(model=MODEL, control=str(control).lower()))

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        # Whoever runs the tests in the background may have switched Ctrl-C off for their children.
        return subprocess.Popen(
            [sys.executable, "-m", "cobalt.run", str(self.config), "--out", str(self.out), *more],
            stdout=self.log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    def until(self, process: subprocess.Popen[bytes], text: str, more_s: float = 0.0) -> None:
        deadline = time.monotonic() + 300
        while text not in self.said():
            assert process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        time.sleep(more_s)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def run(self, *more: str) -> int:
        return self.start(*more).wait(timeout=500)

    def results(self) -> dict:
        return json.loads((self.out / "results.json").read_text())

    def record(self, stage: str) -> dict:
        return json.loads((self.out / "stages" / f"{stage}.json").read_text())


def processes_of(out: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(out) in command or os.fsencode(out) in environment:
                found.append(command.decode(errors="replace"))
    return found


def check(demo: Demo, control: bool) -> None:
    """The finished run has everything that `results.json` promises, and its numbers agree with its rows."""
    found = demo.results()
    stages = [stage["name"] for stage in found["stages"]]
    expected = ["data", "collect", "repair", "judge", "contexts", "parquet", "train", "train_single"]
    expected += ["evaluate", "perturb", "hack_analysis", "controls", "report"]
    assert stages == [name for name in expected if control or name != "train_single"]
    for stage in found["stages"]:
        assert stage["wall_s"] > 0
        assert stage["rows_out"] > 0 or stage["name"] == "hack_analysis"  # there may be no bent program
    assert sum(stage["wall_s"] for stage in found["stages"]) <= found["wall_s"]
    assert found["stages"][expected.index("train")]["wall_s"] > 1.0
    assert found["evaluator"]["infra_errors"] == 0 and found["evaluator"]["tests"] > 300
    training = found["training"]
    assert (training["trainer"], training["steps"], training["masked"]) == ("verl", 2, 0)
    assert training["samples"] == 2 * 4 * 4
    assert found["peak_memory_mib"] > 500
    rows = [json.loads(line) for line in (demo.out / "evaluate" / "cobalt_eval.jsonl").open()]
    assert len(rows) == found["tasks"] == 12
    for turn in range(found["turns"]):
        share = sum(sample[turn] == 1 for row in rows for sample in row["all_pass_rates"]) / 24
        assert found["pass_at_1"]["cobalt"][turn] == pytest.approx(share)
    wanted = {"blank_feedback", "other_feedback", "best_of_turns"}
    assert set(found["controls"]) == wanted | ({"single_turn_training"} if control else set())
    assert "Pass@1 by turn" in (demo.out / "report.html").read_text()
    report = json.loads((demo.out / "report" / "report.json").read_text())
    assert report["runs"][1]["summary"]["pass_at_1"] == found["pass_at_1"]["cobalt"]
    assert (demo.out / "report" / "data" / "index.js").stat().st_size > 0
    assert found["sets"]["heldout"]["cobalt"] == pytest.approx(found["pass_at_1"]["cobalt"])
    assert set(found["perturbed"]["pass_at_1"]) == {"reference", "cobalt"}
    for name in ("reference", "cobalt"):
        cases = [json.loads(line) for line in (demo.out / "hack_analysis" / f"{name}_errors.jsonl").open()]
        assert found["hacking"][name]["cases"] == len(cases)
    assert found["hacking"]["judge"].startswith("no judge") and not found["smoke"]
    assert "Pass@1" in (demo.out / "report_perturbed" / "index.html").read_text()


@pytest.mark.slow
def test_a_run_is_interrupted_continued_finished_and_left_alone(tmp_path):
    demo = Demo(tmp_path, control=False)
    process = demo.start()
    demo.until(process, "] repair: further turns on feedback ...", more_s=1.0)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "the same command continues from there" in demo.said()
    assert processes_of(demo.out) == []

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
    demo = Demo(tmp_path, control=True)
    for text, more_s, how in (
        ("] collect: first programs of the reference ...", 6, signal.SIGKILL),
        ("] judge: hidden tests ...", 0.5, signal.SIGINT),
        ("] train: GRPO on contexts (verl) ...", 15, signal.SIGINT),
        ("] evaluate on held-out tasks ...", 4, signal.SIGKILL),
        ("] control experiments ...", 3, signal.SIGKILL),
    ):
        process = demo.start()
        demo.until(process, text, more_s)
        process.send_signal(how)
        assert process.wait(timeout=120) == (130 if how == signal.SIGINT else -how)
        deadline = time.monotonic() + 30
        while processes_of(demo.out) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert processes_of(demo.out) == []
    assert demo.run() == 0, demo.said()
    check(demo, control=True)
    for name in ("collect/single", "collect/judged", "evaluate/cobalt_eval"):
        ids = [json.loads(line)["id"] for line in (demo.out / f"{name}.jsonl").open()]
        assert len(ids) == len(set(ids)) == (16 if name.startswith("collect") else 12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.yaml", "--out", "x"], "cannot read nowhere.yaml"),
        (["{bad}", "--out", "x"], "'trian' is unknown; did you mean 'train'?"),
        (["{good}", "--out", "{bad}"], "is a file; OUT must be a folder"),
        (["{good}", "--out", "{file}/sub"], "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, arguments, said):
    places = {"bad": tmp_path / "bad.yaml", "good": tmp_path / "good.yaml", "file": tmp_path / "bad.yaml"}
    places["bad"].write_text("name: x\ntrian: 3\n")
    places["good"].write_text(SIZES.format(model=MODEL, control="false"))
    command = [sys.executable, "-m", "cobalt.run", *(each.format(**places) for each in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bad.yaml", "good.yaml"}
