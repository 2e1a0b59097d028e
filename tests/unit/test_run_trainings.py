"""The trainings of a run: one starts after the other, and an interrupt ends both whatever they are doing."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cobalt.config.load import parse
from cobalt.run.job import Job
from cobalt.run.memory import MemoryPeak
from cobalt.run.runner import Runner
from cobalt.run.trainings import training_stages
from cobalt.run.view import View, lines
from cobalt.training import launch

ROOT = Path(__file__).parents[2]
START_S = 0.3


@pytest.fixture
def stages(tmp_path):
    file = ROOT / "configs" / "tiny.yaml"
    with Job(parse(file), ROOT / "models/tiny-reference", tmp_path, seed=0, task_seed=0, file=file) as job:
        for name in ("parquet", "parquet_single"):
            for split in ("train", "test"):
                job.path(name).mkdir(exist_ok=True)
                job.path(name, f"{split}.parquet").write_text("")
        yield training_stages(job)


def trained(events, interrupt=False):
    """Stands in for `train`: composes, has a process after a while, trains until stopped or done."""

    def train(*, output, label, stop, **_):
        events.append(("composes", label))
        time.sleep(START_S)
        events.append(("has a process", label))
        for _ in range(100 if interrupt else 3):
            stop()
            time.sleep(0.02)
            if interrupt and label == "training":
                raise KeyboardInterrupt
        (output / "model").mkdir(parents=True)
        (output / "metrics.jsonl").write_text("")
        return SimpleNamespace(plan={"contexts": 1}, samples=1, steps=1, masked=0, evaluator={})

    return train


def run(stages, out):
    with MemoryPeak() as memory:
        Runner(out, stages, memory, dict).run(View(lines(stages)))


def test_they_compose_one_after_the_other(stages, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(launch, "train", trained(events))
    run(stages, tmp_path)
    assert [what for what, _ in events] == ["composes", "has a process"] * 2
    assert {label for _, label in events} == {"training", "control training"}


def test_an_interrupt_ends_the_control_that_is_only_starting(stages, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(launch, "train", trained(events, interrupt=True))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(stages, tmp_path)
    assert time.monotonic() - started < 10 * START_S  # the control is stopped at its first look
    assert threading.active_count() < 10 and not (tmp_path / "train_single" / "model").exists()
