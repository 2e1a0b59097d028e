"""Which variables every process of a training gets, and which of them are never shown."""

import pytest

from cobalt.training.forwarded import forwarded, is_key


@pytest.mark.parametrize(
    "name",
    [
        "TIKTOKEN_CACHE_DIR", "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE",
        "TRANSFORMERS_CACHE",
        "WANDB_MODE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "VLLM_USE_V1", "VERL_PLATFORM",
        "CUDA_LAUNCH_BLOCKING", "PYTORCH_CUDA_ALLOC_CONF", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
        "OMP_NUM_THREADS", "MLFLOW_TRACKING_URI", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "PYTHONPATH",
        "COBALT_RUN_DIR", "VERL_FILE_LOGGER_PATH", "TENSORBOARD_DIR", "TOKENIZERS_PARALLELISM",
        "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S",
    ],
)  # fmt: skip
def test_shown(name):
    assert forwarded({name: "x", "OTHER": "y"}) == ({name: "x"}, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"), ("HUGGING_FACE_HUB_TOKEN", "x"), ("WANDB_API_KEY", "x"), ("VLLM_API_KEY", "x"),
        ("COBALT_EVALUATOR_TOKEN", "x"), ("MLFLOW_TRACKING_PASSWORD", "x"),
        ("HTTPS_PROXY", "http://me:secret@proxy:8080"), ("MLFLOW_TRACKING_URI", "https://me:secret@host/x"),
    ],
)  # fmt: skip
def test_keys_are_kept_apart(name, value):
    assert forwarded({name: value}) == ({}, {name: value})


@pytest.mark.parametrize(
    "name",
    ["CUDA_VISIBLE_DEVICES", "COBALT_RAY_DIR", "PATH", "HOME", "RAY_ADDRESS", "SLURM_JOB_ID", "TMPDIR"],
)
def test_of_one_process_or_machine(name):
    assert forwarded({name: "x"}) == ({}, {})


def test_more_names():
    assert forwarded({"MINE": "1", "MY_API_KEY": "2"}, ["MINE", "MY_API_KEY", "ABSENT"]) == (
        {"MINE": "1"}, {"MY_API_KEY": "2"},
    )  # fmt: skip
    assert not is_key("HF_TOKEN", "")
