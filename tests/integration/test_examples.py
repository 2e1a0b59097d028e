"""The examples extend Cobalt from outside the package; here they are used as a stranger would use them."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from doors import ROOT, run
from training_assets import make_model, rows, write

from cobalt.data import main as data_main
from cobalt.engines import engine_name
from cobalt.errors import InputError
from cobalt.evaluator import LocalEvaluator
from cobalt.rows import read_rows
from cobalt.training.config import compose
from cobalt.training.launch import train

EXAMPLES = ROOT / "examples"
RECIPE = EXAMPLES / "recipe" / "rank_grpo.yaml"
# Sum, span and number of odd ones, in the order of the tasks.
ANSWERS = {
    "sum": "print(sum(map(int, input().split())))",
    "span": "n = [int(x) for x in input().split()]\nprint(max(n) - min(n))",
    "odd": "print(len([x for x in input().split() if int(x) % 2]))",
}


def rows_of(path):
    return [row for _, row in read_rows(path)]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """The example's tasks, written far from the checkout."""
    folder = tmp_path_factory.mktemp("tasks")
    shutil.copy(EXAMPLES / "task_source" / "sequences.py", folder)
    run(folder / "sequences.py", "tasks.jsonl", cwd=folder)
    return folder / "tasks.jsonl"


def test_the_task_source_is_short_and_its_file_is_one_of_tasks(tasks, capsys):
    lines = (EXAMPLES / "task_source" / "sequences.py").read_text().splitlines()
    assert 10 <= sum(bool(line.strip()) for line in lines) <= 30
    assert data_main(["check", str(tasks)]) == 0
    assert "3 rows, tasks" in capsys.readouterr().out


def test_the_evaluator_judges_its_tests(tasks):
    with LocalEvaluator(1) as evaluator:
        for row in rows_of(tasks):
            right = evaluator.evaluate(ANSWERS[row["id"]], row["test_cases"])
            assert right["passing"] == [True] * 6
            assert not any(evaluator.evaluate("print('?')", row["hidden_test_cases"])["passing"])


@pytest.mark.slow
def test_tasks_and_engine_of_ones_own_through_the_doors(tasks, tmp_path):
    shutil.copy(EXAMPLES / "engine" / "template_engine.py", tmp_path)
    own = ["--engine", "template_engine.py:TemplateEngine", "--model_name", "three", "--evaluator", "local"]
    own += ["--workers", "1", "--seed", "1"]
    single = ["-i", tasks, "-o", "single.jsonl", "-n", "3", *own]
    run(ROOT / "run_single_turn_vllm.py", *single, cwd=tmp_path)
    done = rows_of(tmp_path / "single.jsonl")
    assert [len(row["responses"]) for row in done] == [3, 3, 3]
    solved = [sum(all(each["passing"]) for each in row["exec_results"]) for row in done]
    assert solved == [1, 1, 1]  # three programs in turn, one of them right for each task
    multi = ["-i", "single.jsonl", "-o", "multi.jsonl", "--turns", "3", *own]
    run(ROOT / "run_multi_turn_vllm.py", *multi, cwd=tmp_path)
    judged = ["-i", "multi.jsonl", "-o", "eval.jsonl", "--evaluator", "local", "--workers", "1"]
    run(ROOT / "eval_multi_turn.py", *judged, cwd=tmp_path)
    rates = [row["all_pass_rates"] for row in rows_of(tmp_path / "eval.jsonl")]
    assert [[len(sample) for sample in row] for row in rates] == [[3, 3, 3]] * 3
    assert all(max(sample) == 1.0 for row in rates for sample in row)  # each dialogue tries all three
    again = json.loads((tmp_path / "single.jsonl.manifest.json").read_text())
    assert "template:three" in json.dumps(again)


def test_the_flag_refuses_what_cannot_be_an_engine():
    import argparse

    assert engine_name("my.module:Engine") == "my.module:Engine"
    with pytest.raises(argparse.ArgumentTypeError, match=r"FILE\.py:NAME"):
        engine_name("opena")


def test_the_recipe_composes_on_both_profiles():
    for profile, scale in (("cpu", "tiny"), ("gpu", "published")):
        config = compose(str(RECIPE), profile, scale, {})
        assert config.algorithm.adv_estimator == "rank" and config.cobalt.recipe == "rank_grpo"
        assert list(config.cobalt.plugins) == ["rank_advantage"] and config.data.max_prompt_length > 100
        assert config.cobalt.recipe_file == str(RECIPE)
        assert config.actor_rollout_ref.actor.clip_ratio_high == 0.4  # all else as in recipe cobalt


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "defaults: [cobalt]\ndata: {train_batch_sise: 4}",
            "no setting 'data.train_batch_sise'; did you mean",
        ),
        (
            "defaults: [cobalt]\nalgoritm: {adv_estimator: x}",
            "no setting 'algoritm'; did you mean 'algorithm'",
        ),
        ("defaults: [nothing]\ntrainer: {}", "nothing"),
        ("- a list", "must hold settings"),
        ("a: [", "cannot be read"),
    ],
)
def test_mistakes_in_a_recipe_of_ones_own(tmp_path, text, says):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"mine|configuration") as error:
        compose(str(tmp_path / "mine.yaml"), "cpu", "tiny", {})
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_recipe_may_be_fitted_to_a_scale_and_not_be_named_like_ours(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [cobalt]\ndata: {train_batch_size: 6}\n")
    (tmp_path / "tiny_mine.yaml").write_text("data: {train_batch_size: 10}\n")
    assert compose(str(tmp_path / "mine.yaml"), "gpu", "published", {}).data.train_batch_size == 6
    assert compose(str(tmp_path / "mine.yaml"), "cpu", "tiny", {}).data.train_batch_size == 10
    shutil.copy(tmp_path / "mine.yaml", tmp_path / "cobalt.yaml")
    with pytest.raises(InputError, match="built-in"):
        compose(str(tmp_path / "cobalt.yaml"), "cpu", "tiny", {})
    with pytest.raises(InputError, match="no such file"):
        compose(str(tmp_path / "none.yaml"), "cpu", "tiny", {})


def test_the_estimator_ranks_within_groups():
    import torch

    sys.path.insert(0, str(RECIPE.parent))
    try:
        from rank_advantage import rank_advantage
    finally:
        sys.path.remove(str(RECIPE.parent))
    rewards = torch.tensor([[0.0, 3.0], [0.0, 1.0], [0.0, 1.0], [0.0, 9.0]])
    mask = torch.tensor([[1, 1], [1, 1], [1, 0], [1, 1]])
    found, _ = rank_advantage(rewards, mask, ["a", "a", "a", "b"])
    assert torch.allclose(found[:, 0], torch.tensor([2 / 3, -1 / 3, -1 / 3, 0.0])) and found[2, 1] == 0


@pytest.mark.slow
@pytest.mark.full
def test_the_recipe_trains(tmp_path):
    """Two steps on CPU from a copy of the recipe in a folder of its own; its estimator is the one used."""
    shutil.copytree(EXAMPLES / "recipe", tmp_path / "mine")
    flags = {
        "train_file": write(tmp_path / "train.parquet", rows("train", 16)),
        "val_file": write(tmp_path / "test.parquet", rows("test", 4)),
        "model": make_model(tmp_path / "model"),
        "recipe": str(tmp_path / "mine" / "rank_grpo.yaml"),
    }
    small = ["data.max_prompt_length=32", "data.max_response_length=3"]
    result = train(output=tmp_path / "out", steps=2, evaluator="local", overrides=small, **flags)
    assert result.steps == 2 and result.model is not None
    for step in result.metrics:
        assert -1 < step["critic/advantages/min"] < 0 < step["critic/advantages/max"] < 1
    assert (tmp_path / "out" / "checkpoints" / "recipe.txt").read_text() == "rank_grpo\n"
    assert "rank_grpo" in (result.model / "README.md").read_text()
    (tmp_path / "mine" / "rank_advantage.py").unlink()
    with pytest.raises(InputError, match=r"cobalt\.plugins: there is no module rank_advantage"):
        train(output=tmp_path / "other", steps=2, evaluator="local", overrides=small, dry_run=True, **flags)
