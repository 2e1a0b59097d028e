"""Adapters that verl wrote into an exported model are put back into its weights."""

import json
from pathlib import Path

import pytest

from cobalt.errors import InfraError
from cobalt.training.checkpoint import merge_adapters

MODEL = Path(__file__).parents[2] / "models" / "tiny-reference"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model with random adapters as verl's checkpoint manager exports it, and its logits."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    wrapped = get_peft_model(
        model, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=12, target_modules="all-linear", bias="none")
    )
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    tokens = torch.arange(3, 30).reshape(1, -1)
    with torch.no_grad():
        logits = wrapped(tokens).logits
    folder = tmp_path_factory.mktemp("checkpoint") / "huggingface"
    config = wrapped.config
    config.save_pretrained(folder)
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.save_pretrained(folder, state_dict=wrapped.state_dict())
    (folder.parent / "lora_train_meta.json").write_text(json.dumps({"r": 4, "lora_alpha": 12}))
    return folder, tokens, logits


def copy(exported, tmp_path: Path) -> tuple[Path, Path]:
    import shutil

    return shutil.copytree(exported[0], tmp_path / "model"), exported[0].parent / "lora_train_meta.json"


def test_the_merged_model_computes_what_the_adapted_one_did(exported, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    folder, meta = copy(exported, tmp_path)
    assert merge_adapters(folder, meta) is True
    model, told = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    with torch.no_grad():
        assert torch.allclose(model(exported[1]).logits, exported[2], atol=1e-4)
        base = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)(exported[1]).logits
    assert not torch.allclose(base, exported[2], atol=1e-2)
    assert merge_adapters(folder, meta) is False


def test_a_model_without_adapters_is_left_alone(tmp_path):
    before = (MODEL / "model.safetensors").stat().st_mtime_ns
    assert merge_adapters(MODEL, tmp_path / "none.json") is False
    assert (MODEL / "model.safetensors").stat().st_mtime_ns == before


def test_adapters_without_their_rank_are_a_fault(exported, tmp_path):
    folder, _ = copy(exported, tmp_path)
    with pytest.raises(InfraError, match=r"none\.json: rank and alpha of the adapters cannot be read"):
        merge_adapters(folder, tmp_path / "none.json")
    assert (folder / "config.json").exists()
