"""verl's task runner on a cluster: the same code in a Ray actor that knows our trainer."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from cobalt.training.process import writer_lock
from cobalt.training.verl_compat import plain_task_runner

_Runner: Any = plain_task_runner()


class ClusterRunner(_Runner):
    """Registers trainer and estimators in the actor's process before verl looks for them, and holds the
    output folder as long as this process lives: it may outlive its launcher, which does so too.
    """

    def run(self, config: Any) -> None:
        """Train. ``config``: the composed and checked configuration."""
        importlib.import_module("cobalt.training.trainer")
        with writer_lock(Path(config.trainer.default_local_dir).parent):
            super().run(config)
