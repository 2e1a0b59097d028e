"""Records of turns in a training: an advantage, a loss and a tree, from the files of the page about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from training_assets import TESTS, make_model, rows, write

from cobalt.training.launch import train

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "estimator_and_loss.md"


def test_records_reach_the_estimator_and_the_workers_that_update(tmp_path):
    for name, text in re.findall(r"```\w+\n# (\w+\.\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text.replace("by_turn.py:", f"{tmp_path}/by_turn.py:"))
    public = json.dumps({name: values[:2] for name, values in TESTS.items()})
    files = {
        f"{name}_file": write(
            tmp_path / f"{split}.parquet", [row | {"public_test_cases": public} for row in rows(split, 20)]
        )
        for name, split in (("train", "train"), ("val", "test"))
    }
    done = train(
        **files, model=make_model(tmp_path / "model"), output=tmp_path / "out", steps=1,
        recipe=str(tmp_path / "by_turn.yaml"), say=lambda _: None,
        overrides=(
            "data.max_prompt_length=32", "data.max_response_length=300", "cobalt.dialogue.turns=2",
            "cobalt.dialogue.max_turn_tokens=3", f"cobalt.advantage={tmp_path}/handed_up.py:advantage",
            "cobalt.dialogue.branches=[2,4]", "cobalt.token_mean_over=2",
        ),
    )  # fmt: skip
    (metrics,) = done.metrics
    assert metrics["actor/feedback"] > 0 and metrics["actor/grad_norm"] > 0
    assert metrics["critic/advantages/max"] > 0 > metrics["critic/advantages/min"]
    notes = [note for note in done.notes if "sha256" in note]
    assert [note.partition(":")[0] for note in notes] == ["advantage", "policy loss"]
