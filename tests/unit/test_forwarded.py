"""Environment variables of the shell that reach workers of a training, and which of them are keys."""

import pytest

from cobalt.training.forwarded import forwarded, is_key

SHOWN = """TIKTOKEN_CACHE_DIR HF_HOME HF_HUB_CACHE HF_ENDPOINT HF_HUB_OFFLINE TRANSFORMERS_CACHE WANDB_MODE
NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME VLLM_USE_V1 VERL_PLATFORM CUDA_LAUNCH_BLOCKING PYTORCH_CUDA_ALLOC_CONF
TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR OMP_NUM_THREADS MLFLOW_TRACKING_URI HTTPS_PROXY no_proxy
SSL_CERT_FILE PYTHONPATH COBALT_RUN_DIR VERL_FILE_LOGGER_PATH TENSORBOARD_DIR TOKENIZERS_PARALLELISM
RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S"""
KEYS = """HF_TOKEN HUGGING_FACE_HUB_TOKEN WANDB_API_KEY VLLM_API_KEY COBALT_EVALUATOR_TOKEN
MLFLOW_TRACKING_PASSWORD"""
SECRET = {"HTTPS_PROXY": "http://me:secret@proxy:8080", "MLFLOW_TRACKING_URI": "https://me:secret@host/x"}
OWN = ("CUDA_VISIBLE_DEVICES", "COBALT_RAY_DIR", "PATH", "HOME", "RAY_ADDRESS", "SLURM_JOB_ID", "TMPDIR")


@pytest.mark.parametrize("name", SHOWN.split())
def test_shown(name):
    assert forwarded({name: "x", "OTHER": "y"}) == ({name: "x"}, {})


@pytest.mark.parametrize(("name", "value"), [*((name, "x") for name in KEYS.split()), *SECRET.items()])
def test_keys_are_kept_apart(name, value):
    assert forwarded({name: value}) == ({}, {name: value})


def test_what_is_of_one_process_or_machine_stays_and_more_may_be_named():
    assert forwarded(dict.fromkeys(OWN, "x")) == ({}, {})
    more = forwarded({"MINE": "1", "MY_API_KEY": "2"}, ["MINE", "MY_API_KEY", "ABSENT"])
    assert more == ({"MINE": "1"}, {"MY_API_KEY": "2"}) and not is_key("HF_TOKEN", "")
