"""Manifests: what they record, what they keep quiet about, and when a resume is refused."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import cobalt
from cobalt.errors import InputError, SettingsChanged
from cobalt.manifest import check_resume, manifest_path, read_manifest, write_manifest
from cobalt.output import write_jsonl


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.6
    stop: tuple[str, ...] = ("a",)


@pytest.fixture
def out(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"id": 1}])
    return path


def test_a_manifest_says_how_a_file_was_made(out, tmp_path, monkeypatch):
    (tmp_path / "tasks.jsonl").write_bytes(b"abc")
    monkeypatch.setattr(sys, "argv", ["door.py", "-i", "tasks.jsonl"])
    written = write_manifest(
        out,
        settings={"sampling": Sampling(), "path": Path("x"), "model": "m"},
        inputs=[tmp_path / "tasks.jsonl"],
        counts={"rows": 1},
        extra={"wall_s": 1.5},
    )
    assert manifest_path(out) == tmp_path / "rows.jsonl.manifest.json"
    assert read_manifest(out) == written == json.loads(manifest_path(out).read_text())
    assert written["argv"] == ["door.py", "-i", "tasks.jsonl"]
    assert written["settings"]["sampling"] == {"temperature": 0.6, "stop": ["a"]}
    assert written["inputs"]["tasks.jsonl"]["bytes"] == 3
    assert written["inputs"]["tasks.jsonl"]["sha256"].startswith("ba7816bf")
    assert (written["counts"], written["wall_s"]) == ({"rows": 1}, 1.5)
    assert written["versions"]["cobalt"] == cobalt.__version__
    assert {"python", "numpy", "cobalt_sources"} <= written["versions"].keys()


def test_equal_settings_may_resume(out):
    write_manifest(out, settings={"sampling": Sampling(), "n": 16})
    check_resume(out, {"n": 16, "sampling": Sampling()})


def test_a_refusal_shows_every_difference(out):
    write_manifest(out, settings={"sampling": Sampling(), "n": 16, "old": None})
    before = manifest_path(out).read_bytes()
    with pytest.raises(SettingsChanged) as refusal:
        check_resume(out, {"sampling": Sampling(temperature=1.0), "n": 16, "new": "x"})
    lines = str(refusal.value).splitlines()
    assert str(out) in lines[0] and "delete this one" in lines[0]
    assert lines[1:] == [
        '  new: (absent) -> "x"',
        "  old: null -> (absent)",
        "  sampling.temperature: 0.6 -> 1.0",
    ]
    assert manifest_path(out).read_bytes() == before


def test_rows_of_unknown_origin_are_not_continued(out):
    with pytest.raises(SettingsChanged, match=r"rows\.jsonl\.manifest\.json"):
        check_resume(out, {})


def test_nothing_to_resume(tmp_path):
    check_resume(tmp_path / "gone.jsonl", {"n": 1})
    (tmp_path / "empty.jsonl").touch()
    write_manifest(tmp_path / "empty.jsonl", settings={"n": 2})
    check_resume(tmp_path / "empty.jsonl", {"n": 1})


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_manifest(out, text):
    manifest_path(out).write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        check_resume(out, {})


def test_the_first_time_is_kept_while_the_settings_are(out):
    first = write_manifest(out, settings={"n": 1})
    manifest = json.loads(manifest_path(out).read_text()) | {"created": "2020-01-01T00:00:00Z"}
    manifest_path(out).write_text(json.dumps(manifest))
    assert write_manifest(out, settings={"n": 1})["created"] == "2020-01-01T00:00:00Z"
    assert write_manifest(out, settings={"n": 2})["created"] >= first["created"]


def test_secrets_are_not_written(out, monkeypatch):
    argv = [
        "door.py",
        "--openai_api_key",
        "S3CR",
        "--aws-secret-access-key=S3CR",
        "--hf_token",
        "S3CR",
        "-n",
        "2",
    ]
    monkeypatch.setattr(sys, "argv", [*argv, "--max_tokens", "64", "--openai_api_key", "--next", "x"])
    settings = {
        "api_key": "S3CR",
        "nested": [{"password": "S3CR"}],
        "max_tokens": 64,
        "aws_access_key_id": "",
    }
    manifest = write_manifest(out, settings=settings)
    assert "S3CR" not in manifest_path(out).read_text()
    assert manifest["argv"][-7:] == ["-n", "2", "--max_tokens", "64", "--openai_api_key", "--next", "x"]
    assert manifest["settings"]["max_tokens"] == 64
    assert manifest["settings"]["aws_access_key_id"] == ""
    check_resume(out, settings | {"api_key": "another"})  # a new key does not change the rows
