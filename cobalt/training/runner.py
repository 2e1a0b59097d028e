"""verl's task runner on a cluster: the same code in a Ray actor that knows our trainer."""

from __future__ import annotations

import importlib
from typing import Any

from cobalt.training.private import plain_task_runner

_Runner: Any = plain_task_runner()


class ClusterRunner(_Runner):
    """Registers trainer and estimators in the actor's process before verl looks for them."""

    def run(self, config: Any) -> None:
        """Train. ``config``: the composed and checked configuration."""
        importlib.import_module("cobalt.training.trainer")
        super().run(config)
