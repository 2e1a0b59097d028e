"""The context and Parquet doors with a real tokenizer, and verl's own dataset class on what they write."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cobalt.contexts import build, parquet
from cobalt.errors import InputError

sys.path.append(str(Path(__file__).parents[1] / "golden"))
from golden_contexts import expected, rows

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # importing transformers takes longer than all the rest

# Renders to as many words as the golden file counts: those of the messages, and four for the header.
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}now it is yours{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of one token per word."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({"[UNK]": 0, "word": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[UNK]")
    tokenizer.chat_template = TEMPLATE
    folder = tmp_path_factory.mktemp("model")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_door_of_contexts(model: Path, tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", rows()), tmp_path / "new" / "out.jsonl"
    door = [sys.executable, str(ROOT / "preproc" / "process_multi_turn_taco.py")]
    flags = ["-i", str(source), "--output-file", str(out), "--model_name", str(model)]
    done = subprocess.run([*door, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    contexts = expected("train")
    random.Random(42).shuffle(contexts)
    assert read(out) == contexts
    assert f"tasks: {len(rows())} read, 1 skipped" in done.stdout
    assert f"contexts: {len(contexts)} (" in done.stdout
    manifest = json.loads(Path(str(out) + ".manifest.json").read_text())
    assert manifest["settings"]["seed"] == 42
    assert manifest["inputs"]["in.jsonl"]["bytes"] == source.stat().st_size


def test_doors_of_parquet(tmp_path: Path) -> None:
    source = write(tmp_path / "contexts.jsonl", expected("train"))
    door = [sys.executable, str(ROOT / "preproc" / "verl_preproc_multi_turn.py")]
    flags = ["--local-dir", "out", "--train_data_file", source.name, "--val_data_file", source.name]
    done = subprocess.run([*door, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    count = len(expected("train"))
    assert done.stdout == f"out/train.parquet: {count} rows\nout/test.parquet: {count} rows\n"
    assert done.stderr == "warning: some ids are numbers and some are texts: all are stored as texts\n"

    before = (tmp_path / "out" / "train.parquet").read_bytes()
    write(source, [{"example_id": 1}])
    failed = subprocess.run([*door, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert failed.returncode == 2
    assert failed.stderr == (
        "error: contexts.jsonl:1: field 'conversation' is missing (expected a list); "
        "correct it, or leave such rows out: --on_bad_row skip\n"
    )
    assert (tmp_path / "out" / "train.parquet").read_bytes() == before


def test_policies_and_validation_rule(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", rows())
    for name, flags in (("train_fixed", ["--policy", "fixed"]), ("test", ["--is_test"])):
        out = tmp_path / f"{name}.jsonl"
        argv = ["-i", str(source), "-o", str(out), "--model_name", str(model), *flags]
        assert build.main(argv) == 0
        contexts = expected(name)
        random.Random(42).shuffle(contexts)
        assert read(out) == contexts


def test_no_tokenizer(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", rows())
    for name in (str(tmp_path), "no/such-model"):
        with pytest.raises(InputError, match=f"cannot load the tokenizer of --model_name '{name}'"):
            build.main(["-i", str(source), "-o", str(tmp_path / "out"), "--model_name", name])
    assert not (tmp_path / "out").exists()


def verl_dataset(file: Path, model: Path, **config: Any) -> Any:
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    settings = OmegaConf.create({"return_raw_chat": True, "filter_overlong_prompts_workers": None} | config)
    return RLHFDataset(str(file), AutoTokenizer.from_pretrained(model), settings)


def test_verl_reads_contexts(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(tmp_path / "train.jsonl", expected("train"))
    val = write(tmp_path / "val.jsonl", expected("test"))
    argv = ["--local_dir", str(tmp_path), "--train_data_file", str(train), "--val_data_file", str(val)]
    assert parquet.main_multi_turn(argv) == 0
    contexts = read(train)
    dataset = verl_dataset(tmp_path / "train.parquet", model, max_prompt_length=10_000)
    # Slices were measured when they were cut; the openings of the golden tasks are all within the limit.
    assert len(dataset) == len(contexts)
    for i, context in enumerate(contexts):
        row = dataset[i]
        assert row["raw_prompt"] == context["conversation"]
        assert row["reward_model"] == {"style": "rule", "ground_truth": context["test_cases"]}
        assert (row["data_source"], row["ability"]) == ("code_taco_verified", "code")
        assert row["index"] == row["extra_info"]["index"] == str(context["example_id"])
        assert row["extra_info"]["prev_best_pass_rate"] == context["prev_best_pass_rate"]
        assert row["extra_info"]["split"] == "train"
    assert len(verl_dataset(tmp_path / "test.parquet", model, max_prompt_length=10_000)) == len(read(val))

    limit = ["--max_prompt_length", "30", "--model_name", str(model), "--drop_extra_columns"]
    capsys.readouterr()
    assert parquet.main_multi_turn([*argv, *limit]) == 0
    filtered = verl_dataset(tmp_path / "train.parquet", model, filter_overlong_prompts=False)
    again = verl_dataset(tmp_path / "train.parquet", model, max_prompt_length=30)
    assert 0 < len(filtered) == len(again) < len(contexts)
    assert f"{len(contexts) - len(filtered)} prompts over the limit left out" in capsys.readouterr().out


def test_verl_reads_tasks(model: Path, tmp_path: Path) -> None:
    tests = rows()[0]["test_cases"]
    tasks = [
        {"id": i, "instruction": f"task {i}", "test_cases": tests, "slots": ["format"]} for i in range(3)
    ]
    source = str(write(tmp_path / "tasks.jsonl", tasks))
    argv = ["--local_dir", str(tmp_path), "--train_data_file", source, "--val_data_file", source]
    assert parquet.main_single_turn([*argv, "--prompts", "tiny"]) == 0
    dataset = verl_dataset(tmp_path / "train.parquet", model)
    assert [dataset[i]["raw_prompt"][1]["content"] for i in range(3)] == ["task 0", "task 1", "task 2"]
    assert dataset[2]["raw_prompt"][0] == {"role": "system", "content": "Write a Python program."}
    assert dataset[2]["extra_info"] == {"split": "train", "index": 2, "instruction": "task 2"}
    assert dataset[2]["reward_model"]["ground_truth"] == tests
