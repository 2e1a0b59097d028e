"""The process in which verl runs: last checks, then over to verl.

Started by cobalt.training.launch: ``python -m cobalt.training.worker CONFIG [--check]``. It needs seconds of
imports whatever it does, so what needs a tokenizer or verl itself is checked here and not in the launcher.
The plan, and whatever goes wrong, is left as JSON in the run folder.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import threading
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cobalt import cluster
from cobalt.errors import CobaltError, InputError
from cobalt.files import atomic_write
from cobalt.training import checkpoint, forwarded, leftovers
from cobalt.training.prepare import check_parts, missing_devices, prepare
from cobalt.training.process import WRITER_WAIT_S, end_with_parent, writer_lock
from cobalt.training.verl_compat import RUNNER, plain_task_runner, training_job

NOT_HERE = "not on this machine:"  # opens the note of a dry run that could not go on
FAILURE, COUNTERS, PLAN = "failure.json", "evaluator.json", "plan.json"
_OF_A_START = ("num_cpus", "num_gpus", "object_store_memory", "include_dashboard")
_IMPORTED = ("verl.trainer.main_ppo", "verl.trainer.ppo.v1", "transformers.models.auto.modeling_auto")
_started = time.monotonic()


def main(argv: list[str]) -> int:
    """Exit status 0: done (or checked); 1: a fault; 2: input that cannot be used."""
    path, check_only = Path(argv[0]), "--check" in argv[1:]
    end_with_parent()
    try:
        run(path, check_only)
    except BaseException as raised:
        traceback.print_exc()
        error = raised
        while isinstance(cause := getattr(error, "cause", None), BaseException):
            error = cause  # what an actor raised: Ray adds its text to that of the traceback
        kind = "input" if isinstance(error, InputError) else "fault"
        text = str(error) if isinstance(error, CobaltError) else f"{type(error).__name__}: {error}"
        _tell(FAILURE, {"kind": kind, "message": text})
        return 2 if kind == "input" else 1
    return 0


def run(path: Path, check_only: bool) -> None:
    """Check the configuration in file ``path``, write the plan, and train unless ``check_only``."""
    from omegaconf import OmegaConf

    config = OmegaConf.load(path)
    offline, private = config.cobalt.method == "offline", config.trainer.device == "cpu"
    address = None if private or offline else cluster.to_join()
    lacking = missing_devices(config, address)
    output = Path(config.trainer.default_local_dir).parent
    if not check_only:
        if lacking:
            raise InputError(lacking)
        if address is not None:
            _refuse_busy_cluster(address, output)
        with writer_lock(output):  # then its last checkpoint is there
            pass
    plan, notes = prepare(config) if offline else _prepare(config, private and not check_only)
    if not private and not offline:
        where = "starts one of its own here" if address is None else f"joins the one at {address}"
        notes.append(f"Ray cluster: {where}")
    if lacking:
        notes.append(f"{NOT_HERE} {lacking}")
    atomic_write(path, OmegaConf.to_yaml(config))
    _tell(PLAN, {"plan": asdict(plan), "lines": plan.lines(), "notes": notes})
    asked_to_stop = (output / checkpoint.STOP_REQUEST).exists()  # while this process imported and checked
    if check_only or plan.first_step > plan.steps or asked_to_stop:
        return
    if offline:
        from cobalt.training.offline import run as train_offline

        train_offline(config)
        _say("ended")
        return
    try:
        _train(config, private, address)
    finally:
        from cobalt.training.scoring import close_evaluators

        _tell(COUNTERS, close_evaluators())
        _say("ended")


def _prepare(config: Any, starts_ray: bool) -> tuple[Any, list[str]]:
    """`prepare`, while verl is imported and a private Ray cluster started."""
    gc.disable()  # a fifth of the import time goes into collecting garbage that is none
    imports = threading.Thread(target=_import_verl, name="import-verl")
    imports.start()
    try:
        plan, notes = prepare(config)
        if starts_ray:
            _start_private_ray(config)
    finally:
        imports.join()
        gc.freeze()
        gc.enable()
    check_parts(config)
    _say("checked")
    return plan, notes


def _train(config: Any, private: bool, address: str | None) -> None:
    from verl.trainer import main_ppo

    checkpoints = Path(config.trainer.default_local_dir)
    checkpoints.mkdir(parents=True, exist_ok=True)
    (checkpoints / checkpoint.RECIPE).write_text(f"{config.cobalt.recipe}\n")
    if private:
        main_ppo.run_ppo(config, task_runner_class=InProcessRunner)
        return
    import ray

    from cobalt.training import pools, scoring
    from cobalt.training.trainer import ClusterRunner

    _join_cluster(config, address)
    found = pools.start(config.cobalt)
    if found is not None:
        scoring.count_at_end(found)
    try:  # the name is given to one of two that start at once
        main_ppo.run_ppo(config, task_runner_class=ray.remote(name=RUNNER, namespace="cobalt")(ClusterRunner))
    except ValueError as error:
        if RUNNER not in str(error):
            raise
        raise InputError(_busy(address, training_job())) from None
    finally:
        forwarded.leave()


def _join_cluster(config: Any, address: str | None) -> None:
    """What verl would do, without printing what workers get: it finds Ray running."""
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    given, runtime = settings.get("runtime_env") or {}, get_ppo_ray_runtime_env(config)
    variables = {**runtime["env_vars"], **(given.get("env_vars") or {})}
    if config.transfer_queue.enable:
        variables["TRANSFER_QUEUE_ENABLE"] = "1"
    if address is not None:  # Ray takes them for a cluster that it starts only
        settings = {name: value for name, value in settings.items() if name not in _OF_A_START}
    environment = {**runtime, **given, "env_vars": variables}
    where = {"address": address or "local", "runtime_env": environment}
    forwarded.join({**settings, **where}, os.environ, config.cobalt.env)


class InProcessRunner:
    """Stands for verl's TaskRunner actor: the same code, run in this process instead of one more.

    ``run_ppo`` asks for a class with ``remote()``, whose object has ``run.remote(config)``.
    """

    def __init__(self) -> None:
        self.run = SimpleNamespace(remote=self._run)

    @classmethod
    def remote(cls) -> InProcessRunner:
        return cls()

    def _run(self, config: Any) -> Any:
        import ray

        return ray.put(plain_task_runner()().run(config))


def _start_private_ray(config: Any) -> None:
    """Start Ray and the transfer queue's processes, which have imports of their own, meanwhile.

    Ray must start from the main thread: its processes end with the thread that started them.
    """
    import ray
    from omegaconf import OmegaConf

    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    ray.init(_temp_dir=os.environ["COBALT_RAY_DIR"], **settings)
    _say("Ray runs")
    import transfer_queue

    config.transfer_queue.enable = True
    transfer_queue.init(config.transfer_queue)  # verl's own call finds it there
    _say("the transfer queue runs")


def _import_verl() -> None:
    """Errors show again, and are reported, when the main thread imports the same."""
    with contextlib.suppress(Exception):
        for name in _IMPORTED:
            importlib.import_module(name)
    _say("verl is imported")


def _refuse_busy_cluster(address: str, output: Path) -> None:
    """Two trainings in one Ray cluster share one transfer queue and corrupt each other.

    One that is ending is waited for: its driver is gone, or it is of this output, whose launcher is.
    """
    deadline, said = time.monotonic() + WRITER_WAIT_S, False
    with cluster.joined(address):
        while job := training_job():
            ending = job["IsDead"] or f"{output}{os.sep}" in job["Entrypoint"]
            if not ending or time.monotonic() > deadline:
                raise InputError(_busy(address, job))
            if not said:
                print(f"cobalt: waiting for the end of {job['Entrypoint']}", flush=True)
                said = True
            time.sleep(0.5)


def _busy(address: str | None, job: dict[str, Any] | None) -> str:
    what = f" ({job['Entrypoint']}; process {job['DriverPid']} on {job['DriverIPAddress']})" if job else ""
    return (
        f"another training is running in the Ray cluster {address}{what}: wait for its end, or set "
        "RAY_ADDRESS=local to start a cluster of your own"
    )


def _tell(name: str, value: dict[str, Any]) -> None:
    atomic_write(Path(os.environ[leftovers.MARK]) / name, json.dumps(value))


def _say(what: str) -> None:
    print(f"cobalt: {what} after {time.monotonic() - _started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
