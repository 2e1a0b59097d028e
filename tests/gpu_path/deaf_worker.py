"""The control: a worker that stops loading the weights it is sent.

It loads those of the first two updates. At the third and fourth it keeps what it has, one update behind; from
the fifth on sleep has destroyed its weights, as on a GPU.
"""

from vllm.v1.worker import cpu_worker

from cobalt.training.cpu import vllm_worker

HEARD = 2
_sleep = cpu_worker.CPUWorker.sleep


def _sleep_soundly_at_first(self, level=1):
    if self.updates not in (HEARD, HEARD + 1):
        _sleep(self, level)


cpu_worker.CPUWorker.sleep = _sleep_soundly_at_first


class DeafWorker(vllm_worker.Worker):
    updates = 0

    def update_weights_from_ipc(self, *args, **kwargs):
        self.updates += 1
        return super().update_weights_from_ipc(*args, **kwargs)

    def _update_weights(self, *args, **kwargs):
        if self.updates <= HEARD:
            super()._update_weights(*args, **kwargs)
