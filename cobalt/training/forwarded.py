"""Environment variables that every process of a training needs, on whichever node it runs.

Ray's workers inherit the environment in which ``ray start`` was typed, not that of the training. The values
travel in the job's runtime environment, which Ray shows on its dashboard and writes to its logs; keys (by
name, or a URL with a password) therefore go through the memory of the cluster's head, and every worker takes
them from there before anything runs in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from cobalt.training import leftovers

# What names of variables begin with, up to an underscore, and whole names.
_BEGINNINGS = """COBALT VERL VLLM FLASHINFER TORCH TORCHINDUCTOR TORCHDYNAMO PYTORCH TRITON NVTE CUDA CUBLAS
NCCL GLOO UCX FI HF HUGGINGFACE HUGGING_FACE TRANSFORMERS TOKENIZERS TIKTOKEN TENSORBOARD WANDB MLFLOW SWANLAB
TRACKIO CLEARML OMP MKL SSL_CERT"""
_WHOLE = """PYTHONPATH PYTHONHASHSEED PYTHONUNBUFFERED FLASH_ATTENTION_DETERMINISTIC XDG_CACHE_HOME
REQUESTS_CA_BUNDLE CURL_CA_BUNDLE RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S
HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy"""
_PREFIXES = tuple(f"{word}_" for word in _BEGINNINGS.split())
_NAMES = frozenset(_WHOLE.split())
# Ray gives each worker its devices; the others belong to one machine's private cluster and to one process.
_OWN = frozenset({"CUDA_VISIBLE_DEVICES", "COBALT_RAY_DIR", "WANDB_SERVICE"})
_KEY = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_ID)?$")
_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")
_KEYS = "COBALT_KEYS"  # set for workers that have some to take
_STORE, _PLACE = b"cobalt-keys:", "cobalt"
_WAIT_S = 60.0


def forwarded(
    environment: Mapping[str, str], also: Iterable[str] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """What of ``environment`` every process needs, and the keys among it; ``also``: more names."""
    more = frozenset(also)
    found = {
        name: value
        for name, value in sorted(environment.items())
        if name in more or (name not in _OWN and (name in _NAMES or name.startswith(_PREFIXES)))
    }
    keys = {name: found.pop(name) for name in [*found] if is_key(name, found[name])}
    return found, keys


def is_key(name: str, value: str) -> bool:
    """Whether a variable is none to be shown."""
    return bool(value) and bool(_KEY.search(name) or _PASSWORD.search(value))


def join(settings: dict[str, Any], environment: Mapping[str, str], also: Iterable[str] = ()) -> None:
    """``ray.init`` with ``settings``, so that all of the job's workers have what ``forwarded`` says.

    ``settings["runtime_env"]["env_vars"]`` holds what others want there; ``environment`` wins over it.
    """
    import ray
    from ray.experimental import internal_kv

    os.environ["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"  # a submitted job brings the variables of its submission
    shown, keys = forwarded(environment, also)
    wanted = {name: value for name, value in (settings.get("runtime_env") or {}).items() if value is not None}
    wanted["env_vars"] = {**(wanted.get("env_vars") or {}), **shown, **({_KEYS: "1"} if keys else {})}
    wanted["worker_process_setup_hook"] = f"{__name__}.on_worker"
    ray.init(**{**settings, "runtime_env": wanted})
    if keys:  # workers that were quicker wait
        internal_kv._internal_kv_put(_store(), json.dumps(keys).encode(), overwrite=True, namespace=_PLACE)


def leave() -> None:
    """Take the keys out of the cluster's memory again."""
    import ray
    from ray.exceptions import RayError
    from ray.experimental import internal_kv

    with contextlib.suppress(RayError, RuntimeError):  # a cluster that is gone has forgotten them
        if ray.is_initialized():
            internal_kv._internal_kv_del(_store(), namespace=_PLACE)


def on_worker() -> None:
    """What Ray calls in every worker of the job when it starts."""
    leftovers.on_node()
    if _KEYS in os.environ:
        _take_keys()


def _take_keys() -> None:
    from ray.experimental import internal_kv

    deadline = time.monotonic() + _WAIT_S
    while (found := internal_kv._internal_kv_get(_store(), namespace=_PLACE)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the training's keys (WANDB_API_KEY, HF_TOKEN, ...) did not arrive")
        time.sleep(0.1)
    os.environ.update(json.loads(found))


def _store() -> bytes:
    return _STORE + os.environ[leftovers.MARK].encode()
