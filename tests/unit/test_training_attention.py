"""The attention of GPU trainings: chosen by what is installed, and the same without a mask as with one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen3Config

from cobalt.errors import InputError
from cobalt.training import attention, packed
from cobalt.training.attention import FLASH, PACKED, choose_attention
from cobalt.training.config import compose

SIZES = dict(
    vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8,
)  # fmt: skip
GIVEN = "+actor_rollout_ref.model.override_config.attn_implementation="


@pytest.fixture
def bare(monkeypatch):
    """An installation without any flash attention."""

    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(attention, "version", version)
    monkeypatch.setattr(attention, "find_spec", lambda name: None)


def composed(*overrides, recipe="cobalt"):
    return compose(recipe, "gpu", "published", {"cobalt.config_dir": "/"}, overrides)


def model_of(config, name):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation=name)


def losses(config, name, ids, checkpointing=False, **given):
    """Logits and the gradient of the embeddings."""
    model = model_of(config, name)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    logits = model.train()(input_ids=ids, use_cache=False, **given).logits
    logits.float().square().mean().backward()
    return logits.detach(), model.get_input_embeddings().weight.grad


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    "config", [Qwen3Config(**SIZES), LlamaConfig(**SIZES), MistralConfig(**SIZES, sliding_window=4)]
)
def test_a_pack_without_a_mask_is_a_pack_with_one(config, checkpointing):
    counts = (7, 1, 5)
    ids = torch.randint(40, (1, sum(counts)), generator=torch.Generator().manual_seed(1))
    positions = torch.cat([torch.arange(count) for count in counts])[None]
    pack = {"position_ids": positions, "attention_mask": None, "checkpointing": checkpointing}
    ours, wanted = losses(config, PACKED, ids, **pack), losses(config, "eager", ids, **pack)
    for found, expected in zip(ours, wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    alone = losses(config, "eager", ids[:, 7:8], position_ids=positions[:, 7:8], attention_mask=None)
    torch.testing.assert_close(ours[0][:, 7:8], alone[0], rtol=1e-4, atol=1e-6)


def test_padded_rows_get_a_mask_and_what_torch_does_not_compute_is_refused():
    config, ids = Qwen3Config(**SIZES), torch.arange(12).reshape(2, 6)
    padded = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    ours, wanted = (losses(config, name, ids, attention_mask=padded)[0] for name in (PACKED, "eager"))
    torch.testing.assert_close(ours[padded.bool()], wanted[padded.bool()], rtol=1e-4, atol=1e-6)
    query = torch.zeros(1, 1, 2, 8)
    with pytest.raises(ValueError, match="softcap"):
        packed.attend(torch.nn.Identity(), query, query, query, None, softcap=30.0)
    assert packed.lengths(torch.tensor([0, 1, 2, 0, 0, 1])) == [3, 1, 2]


def test_the_exported_model_does_not_name_it(tmp_path):
    model_of(Qwen3Config(**SIZES), PACKED).save_pretrained(tmp_path)
    assert PACKED not in (tmp_path / "config.json").read_text()


@pytest.mark.parametrize(
    ("recipe", "overrides", "chosen", "libraries"),
    [
        ("cobalt", (), PACKED, [attention.MODULE]),
        ("verpo", (), PACKED, [attention.MODULE]),
        ("cobalt", (f"{GIVEN}{PACKED}",), PACKED, [attention.MODULE]),
        ("cobalt", ("actor_rollout_ref.model.external_lib=json",), PACKED, ["json", attention.MODULE]),
        ("cobalt", (f"{GIVEN}sdpa",), "sdpa", None),
        ("offline_rl", (), "sdpa", None),
    ],
)
def test_without_flash_attention_torch_s_own_is_taken(bare, recipe, overrides, chosen, libraries):
    config = composed(*overrides, recipe=recipe)
    said, model = choose_attention(config), config.actor_rollout_ref.model
    assert f"attention: {chosen} (" in said
    if "flash-attn is not installed" in said:
        assert ("token by token" in said) == (not model.use_fused_kernels)
    assert (model.override_config.attn_implementation, model.external_lib) == (chosen, libraries)


def test_with_flash_attention_it_is_taken(monkeypatch):
    config = composed()
    monkeypatch.setattr(attention, "version", lambda name: "2.8.3")
    monkeypatch.setattr(attention.importlib, "import_module", lambda name: None)
    assert choose_attention(config) == "attention: flash_attention_2 (flash-attn 2.8.3)"

    def broken(name):
        raise ImportError("undefined symbol: _ZN3c104cuda\nmore")

    monkeypatch.setattr(attention.importlib, "import_module", broken)  # built for another torch
    assert attention.missing(FLASH).endswith("cannot be imported (undefined symbol: _ZN3c104cuda)")


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        ("cobalt", f"{GIVEN}flash_attention_2", "flash-attn is not installed; install it"),
        ("cobalt", f"{GIVEN}flash_attention_3", "flash-attn-3 is not installed"),
        ("cobalt", f"{GIVEN}kernels-community/flash-attn2", "the package kernels is not installed"),
        ("cobalt", f"{GIVEN}flash_attn", "flash_attn is unknown; there are: .*eager"),
        ("offline_rl", f"{GIVEN}flex_attention", "recipe offline_rl takes sdpa or eager"),
        ("cobalt", "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2", "needs flash"),
        ("cobalt", "actor_rollout_ref.ref.ulysses_sequence_parallel_size=2", "its part of a sequence"),
    ],
)
def test_what_cannot_be_used_is_refused(bare, recipe, override, message):
    with pytest.raises(InputError, match=message):
        choose_attention(composed(override, recipe=recipe))
