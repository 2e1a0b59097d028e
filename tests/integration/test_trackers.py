"""verl's loggers through `trainer.logger`, each with its local mode, read back by its own package."""

import json

import pytest
from foreign_env import run_in

LOGGED = [{"reward/pass_rate": 0.1 * step, "actor/lr": 1e-4} for step in (1, 2, 3)]
LOCAL = {
    "WANDB_MODE": "offline", "WANDB_DIR": "out", "MLFLOW_TRACKING_URI": "sqlite:///out/mlflow.db",
    "TRACKIO_DIR": "out/trackio", "SWANLAB_MODE": "local", "SWANLAB_LOG_DIR": "out/swanlog",
    "TENSORBOARD_DIR": "out/tensorboard",
}  # fmt: skip
WRITE = f"""
from omegaconf import OmegaConf
from cobalt.training import trackers

names = ["tensorboard", "wandb", "mlflow", "trackio", "swanlab"]
trainer = {{"project_name": "mine", "experiment_name": "first", "logger": names}}
config = OmegaConf.create({{"trainer": trainer}})
trackers.settle(config)
trackers.check(config)
tracking = trackers.opened(config)
for step, metrics in enumerate({LOGGED}, start=1):
    tracking.log(metrics, step)
tracking.finish()
"""
READ = (
    f"WANTED = {[each['reward/pass_rate'] for each in LOGGED]}"
    """
import json
from pathlib import Path

import mlflow
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trackio.sqlite_storage import SQLiteStorage

out, name, found = Path("out"), "reward/pass_rate", {}
events = EventAccumulator(str(out / "tensorboard")).Reload()
found["tensorboard"] = [each.value for each in events.Scalars(name)]
data = next(out.glob("wandb/offline-run-*/*.wandb")).read_bytes()  # it has no reader of its own for these
found["wandb"] = [value for value in WANTED if name.encode() in data and str(value).encode() in data]
client = mlflow.MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
found["mlflow"] = [each.value for each in client.get_metric_history(run.info.run_id, name)]
found["trackio"] = [each[name] for each in SQLiteStorage.get_logs("mine", "first")]
lines = "".join(path.read_text() for path in out.glob("swanlog/run-*/logs/*/*.log")).splitlines()
found["swanlab"] = [json.loads(line)["data"] for line in lines]
print(json.dumps(found))
"""
)


@pytest.mark.full
@pytest.mark.slow
def test_every_tracker_has_the_metrics_in_its_local_mode(tmp_path):
    (tmp_path / "out").mkdir()
    local = LOCAL | {"HOME": str(tmp_path), "SWANLAB_SAVE_DIR": str(tmp_path / "swanlab")}
    run_in("trackers", "python", "-c", WRITE, cwd=tmp_path, **local)
    found = json.loads(run_in("trackers", "python", "-c", READ, cwd=tmp_path, **local).splitlines()[-1])
    wanted = [each["reward/pass_rate"] for each in LOGGED]
    assert set(found.pop("swanlab")) == {*wanted, 1e-4}  # a file for each metric
    assert found == {name: pytest.approx(wanted) for name in ("tensorboard", "wandb", "mlflow", "trackio")}
