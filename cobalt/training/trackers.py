"""Where the metrics of a training go: verl's loggers, by name (docs/integrations.md)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from cobalt.errors import InputError

FILE, CONSOLE = "file", "console"
# of verl.utils.tracking, with the package that each needs
PACKAGES = {
    CONSOLE: None, FILE: None, "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow",
    "trackio": "trackio", "swanlab": "swanlab", "clearml": "clearml",
    "vemlp_wandb": "volcengine_ml_platform", "rl_insight": "rl_insight",
}  # fmt: skip


def settle(config: Any) -> None:
    """Have `trainer.logger` be a list of known names that has `file`, of which metrics.jsonl is made.

    Raises InputError for another name.
    """
    given = config.trainer.logger
    names = [given] if isinstance(given, str) else list(given or ())
    for name in names:
        if name not in PACKAGES:
            raise InputError(f"trainer.logger: {name!r} is unknown; there are: {', '.join(PACKAGES)}")
    config.trainer.logger = names if FILE in names else [*names, FILE]


def check(config: Any) -> None:
    """Raises InputError for a tracker whose package is not installed here, where the training starts."""
    for name in config.trainer.logger:
        package = PACKAGES[name]
        if package is not None and find_spec(package) is None:
            raise InputError(f"trainer.logger={name}: {package} is not installed here: pip install {package}")


def opened(config: Any) -> Any:
    """verl's `Tracking` for a training without verl's trainer, which writes console and file itself."""
    from omegaconf import OmegaConf
    from verl.utils.tracking import Tracking

    names = [name for name in config.trainer.logger if name not in (FILE, CONSOLE)]
    trainer, plain = config.trainer, OmegaConf.to_container(config, resolve=True)
    return Tracking(trainer.project_name, trainer.experiment_name, names, plain)
