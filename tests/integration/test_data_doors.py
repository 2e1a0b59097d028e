"""The data doors as processes, with real programs and a real tokenizer; what verl reads of it."""

import json
import os
import random
from pathlib import Path

import pytest
from data_doors import Door, make_model, prepare
from data_rows import many_taco, read, taco, write
from golden_contexts import expected, rows

from cobalt.contexts import build, parquet
from cobalt.errors import InputError
from cobalt.evaluator import LocalEvaluator
from cobalt.tasks.taco import TacoSettings, build_taco


def test_taco_with_programs(tmp_path):
    calls = {"inputs": [[[1, n], 2] for n in range(8)], "outputs": [[n] for n in range(8)], "fn_name": "last"}
    words = {"inputs": [["1", str(n)] for n in range(8)], "outputs": [[1 + n] for n in range(8)]}
    method = "class Solution:\n    def last(self, xs: List[int], k):\n        return xs[-1]"
    call = "def last(xs, k):\n    return xs[-1]"
    add = "def add(a, b):\n    return int(a) + int(b)"
    given = [
        taco("program"),
        taco("wrong", solutions=["print(0)", "import nothing_there"]),
        taco("none", solutions=[]),
        taco("call", input_output=json.dumps(calls), solutions=[call]),
        taco("method", input_output=json.dumps(calls), source="leetcode", solutions=[method]),
        taco("split", input_output=json.dumps(words | {"fn_name": "add"}), solutions=[add]),
    ]
    source, out = write(tmp_path / "in.jsonl", given), tmp_path / "out.jsonl"
    with LocalEvaluator(1) as judge:
        summary = build_taco(source, out, TacoSettings(dev_size=1), evaluator=lambda: judge)
        verdicts = {row["id"]: row for row in read(tmp_path / "out.jsonl.verdicts.jsonl")}
        assert [row["verified"] for row in verdicts.values()] == [True, False, None, True, True, True]
        assert [row.get("way") for row in verdicts.values()] == ["stdin", None, None, "call", "call", "call"]
        assert [row["verified"] for row in read(out)] == [True, False, None, True, True, True]
        assert summary.verified == {"true": 4, "false": 1, "null": 1}
        assert [row.get("fn_name") for row in read(out)][2:] == [None, "last", "last", "add"]
        strict = TacoSettings(dev_size=1, require_verified=True)
        summary = build_taco(source, out, strict, evaluator=lambda: judge)
    assert [row["id"] for row in read(out)] == ["program", "call", "method", "split"]
    assert json.loads(Path(f"{out}.manifest.json").read_text())["counts"]["funnel"]["unverified"] == 2


@pytest.mark.slow
def test_one_or_two_workers_give_the_same_bytes(tmp_path):
    found = []
    for workers in ("1", "2"):
        folder = tmp_path / workers
        write(folder / "taco.jsonl", many_taco(20))
        door = prepare("taco", folder, 20)
        printed, _ = door.run(folder, "--workers", workers)
        assert "rows out" in printed
        verdicts = folder / "verl/data/taco_verified_filtered.jsonl.verdicts.jsonl"
        found.append(door.content(folder) | {"verdicts": verdicts.read_bytes()})
    assert found[0] == found[1]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\n", b'{"id": 1', b"[1]\n", b"{}\n"])
def test_bad_input_is_one_line(content, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(content)
    (tmp_path / "out.jsonl").write_text("as it was")
    flags = ["-i", "in.jsonl", "-o", "out.jsonl", "--evaluator", "local"]
    _, errors = Door("preproc_taco.py", flags).run(tmp_path, code=2)
    (line,) = errors.splitlines()
    assert line.startswith("error: in.jsonl")
    if content.strip():
        assert line.startswith("error: in.jsonl:1: ") and "--on_bad_row skip" in line
    assert (tmp_path / "out.jsonl").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "out.jsonl"]


# --- Contexts and Parquet


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.mark.slow
def test_door_of_contexts(model, tmp_path):
    source, out = write(tmp_path / "in.jsonl", rows()), tmp_path / "new" / "out.jsonl"
    flags = ["-i", str(source), "--output-file", str(out), "--model_name", str(model)]
    printed, _ = Door("process_multi_turn_taco.py", flags).run(tmp_path)
    contexts = expected("train")
    random.Random(42).shuffle(contexts)
    assert read(out) == contexts
    assert f"tasks: {len(rows())} read, 1 skipped" in printed and f"contexts: {len(contexts)} (" in printed
    manifest = json.loads(Path(str(out) + ".manifest.json").read_text())
    assert manifest["settings"]["seed"] == 42
    assert manifest["inputs"]["in.jsonl"]["bytes"] == source.stat().st_size
    for name in (str(tmp_path), "no/such-model"):
        with pytest.raises(InputError, match=f"--model_name '?{name}"):
            build.main(["-i", str(source), "-o", str(tmp_path / "out"), "--model_name", name])


def verl_dataset(file, model, cache, **config):
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    given = {"return_raw_chat": True, "filter_overlong_prompts_workers": None, "cache_dir": str(cache)}
    return RLHFDataset(str(file), AutoTokenizer.from_pretrained(model), OmegaConf.create(given | config))


@pytest.mark.slow
def test_verl_reads_contexts(model, tmp_path, capsys, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    train = write(tmp_path / "train.jsonl", expected("train"))
    val = write(tmp_path / "val.jsonl", expected("test"))
    argv = ["--local_dir", str(tmp_path), "--train_data_file", str(train), "--val_data_file", str(val)]
    printed, errors = Door("verl_preproc_multi_turn.py", argv).run(tmp_path)
    contexts = read(train)
    assert f"train.parquet: {len(contexts)} rows\n" in printed and "all are stored as texts" in errors
    cache = tmp_path / "cache"
    dataset = verl_dataset(tmp_path / "train.parquet", model, cache, max_prompt_length=10_000)
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
    limit = ["--max_prompt_length", "30", "--model_name", str(model), "--drop_extra_columns"]
    assert parquet.main_multi_turn([*argv, *limit]) == 0
    filtered = verl_dataset(tmp_path / "train.parquet", model, cache, filter_overlong_prompts=False)
    again = verl_dataset(tmp_path / "train.parquet", model, cache, max_prompt_length=30)
    assert 0 < len(filtered) == len(again) < len(contexts)
    assert f"{len(contexts) - len(filtered)} prompts over the limit left out" in capsys.readouterr().out

    tests = rows()[0]["test_cases"]
    tasks = [{"id": i, "instruction": f"task {i}", "test_cases": tests, "slots": ["x"]} for i in range(3)]
    source = str(write(tmp_path / "tasks.jsonl", tasks))
    argv = ["--local_dir", str(tmp_path), "--train_data_file", source, "--val_data_file", source]
    assert parquet.main_single_turn([*argv, "--prompts", "tiny"]) == 0
    dataset = verl_dataset(tmp_path / "train.parquet", model, cache)
    assert [dataset[i]["raw_prompt"][1]["content"] for i in range(3)] == ["task 0", "task 1", "task 2"]
    assert dataset[2]["raw_prompt"][0] == {"role": "system", "content": "Write a Python program."}
    assert dataset[2]["extra_info"] == {"split": "train", "index": 2, "instruction": "task 2"}
