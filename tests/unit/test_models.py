"""A model that cannot be had is refused at once, with the file and what to do."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.models import check_model
from cobalt.text import load_tokenizer

REFERENCE = Path(__file__).parents[2] / "models" / "tiny-reference"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(REFERENCE, tmp_path / "models" / "mine")
    return tmp_path / "models" / "mine"


def _cut(folder: Path) -> None:
    with open(folder / "model.safetensors", "r+b") as handle:
        handle.truncate(20_000)


def _header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00{")


def _pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


def _config(folder: Path) -> None:
    (folder / "config.json").write_text('{"vocab')


def _sizes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 1024}))


def _shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_cut, r"model.safetensors: has 20,000 bytes where its header says [\d,]+; copy"),
        (_header, r"model.safetensors: its header is cut or damaged"),
        (_pointer, r"model.safetensors: no safetensors file; .* run `git lfs pull`"),
        (_config, r"config.json: no JSON"),
        (_sizes, r"shape \[\d+, \d+\], but config.json says \[\d+, 1024\]"),
        (_shard, r"model-00002-of-00002.safetensors: No such file"),
        (lambda folder: (folder / "config.json").unlink(), r"no config.json there"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no weights there"),
        (
            lambda folder: (folder / "tokenizer.json").write_text("[1]"),
            r"tokenizer.json: an object is needed",
        ),
    ],
)
def test_a_damaged_folder_is_named_with_its_file(folder: Path, damage: object, said: str) -> None:
    check_model(folder)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(InputError, match=rf"--model {folder}: .*{said}"):
        check_model(folder, flag="--model")


def test_weights_are_not_asked_for_where_only_the_tokenizer_is_needed(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert load_tokenizer(str(folder)).chat_template


@pytest.mark.parametrize(
    "name", ["models/mien", "./models/mien", "models/mine/config.json", "../no/such/one"]
)
def test_a_folder_that_is_not_there_is_no_name_of_the_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(folder.parents[1])
    said = {"models/mine/config.json": "that is a file", "../no/such/one": "no such folder"}
    with pytest.raises(InputError, match=said.get(name, r"no such folder; did you mean 'models/mine'\?")):
        check_model(name)


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a process of its own: the libraries read their settings when they are imported."""
    import os
    import subprocess
    import sys

    code = "from cobalt.models import check_model; check_model('Qwen/Qwen3-8')"
    quiet = dict(os.environ, HF_HOME=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9")
    quiet.pop("HF_HUB_OFFLINE", None)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], env=quiet, capture_output=True, text=True, timeout=60)
    assert "http://127.0.0.1:9 cannot be reached, and no copy is cached" in done.stderr, done.stderr
    assert "Retrying" not in done.stderr and time.monotonic() - began < 15
