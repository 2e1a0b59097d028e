"""Start one training and wait for it: compose, check, print the plan, run verl, collect what it left."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.cli import Progress
from cobalt.errors import InfraError, InputError
from cobalt.files import atomic_write
from cobalt.training import checkpoint, leftovers, worker
from cobalt.training.config import Files, check_inputs, composed
from cobalt.training.monitor import Monitor, check_numbers
from cobalt.training.process import environment, output_lock, private_folder, run_worker
from cobalt.training.result import METRICS, TrainResult, card, launch_folders, new_launch, read_metrics

_TAIL_LINES = 30
_STARTS = 3  # of a training that loses its port before the first step


class PortTaken(InfraError):
    """verl chooses a free port and listens there seconds later; any process may have taken it meanwhile."""


def train(
    *,
    train_file: Files,
    val_file: Files = None,
    model: Path | str | None = None,
    output: Path | str,
    profile: str = "cpu",
    recipe: str = "cobalt",
    scale: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    reward_profile: str | None = None,
    ptb_file: Path | str | None = None,
    prompts: str | None = None,
    resume: str = "auto",
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
    label: str = "training",
    say: Callable[[str], None] = print,
    stop: Callable[[], bool] = lambda: False,
    dry_run: bool = False,
) -> TrainResult:
    """Train a model by a recipe and return what came of it.

    Args: ``train_file`` and ``val_file`` in Parquet, or several (offline recipes need one); ``model`` a
    Hugging Face folder (or name, on GPUs; None: the recipe's); ``output`` a folder of this training alone:
    run again with the same arguments, it continues from its last checkpoint (``resume`` ``auto``; ``never``
    refuses a folder that has one; a path names another ``global_step_N``). ``recipe``: a file of
    ``verl/config/recipe``, the published scripts' words multi_turn and single_turn, or the path of a YAML
    file. ``ptb_file``: contexts from perturbed tests. ``scale`` None: ``tiny`` on CPU, ``published`` on GPUs.
    ``steps`` None: as many as the recipe's epochs have. ``evaluator`` (``auto``, ``local``, ``serve``, a
    URL), ``reward_profile`` and ``prompts`` (of online dialogues) None: as the configuration says.
    ``overrides`` in Hydra's syntax win over everything. ``progress`` hears of every step under ``label``,
    ``say`` gets the plan line by line. Once ``stop()`` is true the run ends after the step under way, with a
    checkpoint, and the result says ``stopped``. ``dry_run`` stops after the plan.

    On CPU several trainings with different outputs may run at once; each has a Ray cluster of its own.
    Raises InputError for input that cannot be used (nothing has been trained then), InfraError if the
    training failed or made fewer steps than asked for.
    """
    target = Path(output).resolve()
    config = composed(
        target,
        (train_file, val_file, ptb_file),
        model,
        (recipe, profile, scale or ("tiny" if profile == "cpu" else "published")),
        {
            "trainer.total_training_steps": steps,
            "cobalt.evaluator": evaluator,
            "cobalt.reward_profile": reward_profile,
            "cobalt.dialogue.prompts": prompts,
        },
        seed,
        resume,
        overrides,
    )
    check_inputs(config)
    with output_lock(target):
        return _started(config, target, progress, label, say, stop, dry_run)


def _started(
    config: Any,
    target: Path,
    progress: Progress | None,
    label: str,
    say: Callable[[str], None],
    stop: Callable[[], bool],
    dry_run: bool,
) -> TrainResult:
    """Start the training, again where it lost its port before the first step."""
    began, starts = time.monotonic(), 0
    while True:
        starts += 1
        with private_folder() as folder:
            launch = folder if dry_run else new_launch(target)
            files = launch / METRICS, folder / worker.PLAN
            monitor = Monitor(*files, target, config, progress, label, say)
            try:
                result = _run(config, launch, folder, monitor, stop, dry_run)
                return result if dry_run else _collect(config, result, began)
            except PortTaken as error:
                if starts == _STARTS or monitor.first_step_s is not None:
                    raise
                port = str(error).partition("port: ")[2].partition(",")[0]
                say(f"another process took the port that verl had chosen ({port}): starting again")


def _run(
    config: Any, launch: Path, folder: Path, monitor: Monitor, stop: Callable[[], bool], dry_run: bool
) -> TrainResult:
    """Run the training process to its end. ``launch``: for what is kept, ``folder``: for what is not."""
    from omegaconf import OmegaConf

    path, log = launch / "config.yaml", launch / "train.log"
    atomic_write(path, OmegaConf.to_yaml(config))
    env = environment(folder, config, monitor.metrics)
    request = monitor.output / checkpoint.STOP_REQUEST
    request.unlink(missing_ok=True)

    def tick() -> None:
        if stop() and not request.exists():
            atomic_write(request, "")
        monitor()

    with log.open("wb") as sink:
        status = run_worker([str(path), *(["--check"] if dry_run else [])], env, sink, tick)
    if status != 0:
        raise _failure(status, folder, log)
    assert monitor.plan is not None
    counters = folder / worker.COUNTERS
    return TrainResult(
        output=monitor.output,
        plan={**monitor.plan["plan"], "functions": OmegaConf.to_container(config.cobalt.functions)},
        notes=monitor.plan["notes"],
        log=None if dry_run else log,
        first_step_s=monitor.first_step_s,
        evaluator=json.loads(counters.read_text()) if counters.exists() else {},
    )


def _collect(config: Any, result: TrainResult, started: float) -> TrainResult:
    """Check that every step was made, export the model, write ``metrics.jsonl`` and ``result.json``."""
    checkpoints, steps = Path(config.trainer.default_local_dir), int(result.plan["steps"])
    files = [folder / METRICS for folder in launch_folders(result.output)]
    metrics = [step for step in read_metrics(path for path in files if path.exists()) if step["step"] > 0]
    done = checkpoint.checkpoint_step(checkpoints)
    stopped = done < steps and (result.output / checkpoint.STOP_REQUEST).exists()
    begin, have = int(result.plan["first_step"]), {step["step"] for step in metrics}
    missing = sorted(set(range(begin, (done if stopped else steps) + 1)) - have)
    if (done < steps and not stopped) or missing:
        assert result.log is not None
        raise InfraError(
            f"the training ended after step {done} of {steps}"
            + (f", without metrics of steps {missing[:10]}" if missing else "")
            + f"; the log ({result.log}) ends:\n{_tail(result.log)}"
        )
    for last in metrics[-1:]:
        check_numbers(last["step"], last)
    lost = sorted(set(range(1, begin)) - have) if checkpoint.is_own(config) else []
    if lost:  # a step is saved before it is logged
        result.notes.append(
            f"metrics of steps {lost} are lost: a launch was killed after saving and before them"
        )
    result = replace(
        result,
        steps=done,
        stopped=stopped,
        samples=done * result.plan["contexts_per_step"] * result.plan["samples_per_context"],
        masked=round(sum(step.get("reward/masked") or 0.0 for step in metrics)),
        wall_s=time.monotonic() - started,
        metrics=metrics,
        evaluator=result.evaluator if "tests" in result.evaluator else _counted(result),
    )
    if done:
        last_one = checkpoints / f"global_step_{done}"
        fp32 = checkpoint.is_fp32(config)
        model = checkpoint.export_model(last_one, result.output / "model", fp32=fp32)
        atomic_write(model / "README.md", card(config, result))
        result = replace(result, checkpoint=last_one, model=model)
    atomic_write(result.output / METRICS, "".join(json.dumps(step) + "\n" for step in metrics))
    atomic_write(result.output / "result.json", json.dumps(result.as_dict(), indent=2) + "\n")
    return result


def _counted(result: TrainResult) -> dict[str, Any]:
    """Counters of an evaluator that belongs to nobody, from this launch's metrics."""
    assert result.log is not None
    file = result.log.with_name(METRICS)
    steps = read_metrics([file] if file.exists() else [])
    names = ("tests", "infra_errors")
    sums = {name: sum(step.get(f"reward/{name}") or 0.0 for step in steps) for name in names}
    return {**sums, **result.evaluator} if any("reward/tests" in step for step in steps) else result.evaluator


def _failure(status: int, folder: Path, log: Path) -> Exception:
    failure, engine = folder / worker.FAILURE, folder / leftovers.ENGINE
    if failure.exists():
        said = json.loads(failure.read_text())
        if said["kind"] == "input":
            return InputError(said["message"])
        kind = PortTaken if re.search(r"DistNetworkError: .*EADDRINUSE", said["message"]) else InfraError
        if "ActorDiedError" in said["message"] and engine.exists():
            said["message"] = f"while the trainer waited for it, vLLM ended: {engine.read_text()}"
        return kind(f"the training failed: {said['message']}\nThe log ({log}) ends:\n{_tail(log)}")
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return InfraError(f"the training process {how}. The log ({log}) ends:\n{_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line[:300]}" for line in lines[-_TAIL_LINES:])
