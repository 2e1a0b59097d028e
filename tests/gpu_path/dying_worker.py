"""A worker that is killed at the worst moment: the trainer sends it weights and waits for its answer."""

import os
import signal
from pathlib import Path

from cobalt.training.cpu import vllm_worker

UPDATE = 4  # in the third step: there is one before the first
DIED = "COBALT_TEST_DIED"  # the file that is written then


class DyingWorker(vllm_worker.Worker):
    updates = 0

    def update_weights_from_ipc(self, *args, **kwargs):
        self.updates += 1
        return super().update_weights_from_ipc(*args, **kwargs)

    def _update_weights(self, *args, **kwargs):
        if self.updates == UPDATE:
            Path(os.environ[DIED]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super()._update_weights(*args, **kwargs)
