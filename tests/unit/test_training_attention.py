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


def losses(config, name, ids, **given):
    """Logits and the gradient of the embeddings."""
    model = model_of(config, name)
    if given.pop("checkpointing", False):
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


def test_padded_rows_get_a_mask():
    config, ids = Qwen3Config(**SIZES), torch.arange(12).reshape(2, 6)
    padded = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    ours, wanted = (losses(config, name, ids, attention_mask=padded)[0] for name in (PACKED, "eager"))
    torch.testing.assert_close(ours[padded.bool()], wanted[padded.bool()], rtol=1e-4, atol=1e-6)


def test_the_exported_model_does_not_name_it(tmp_path):
    model_of(Qwen3Config(**SIZES), PACKED).save_pretrained(tmp_path)
    assert PACKED not in (tmp_path / "config.json").read_text()


def test_lengths_of_a_pack():
    assert packed.lengths(torch.tensor([0, 1, 2, 0, 0, 1])) == [3, 1, 2]
    assert packed.lengths(torch.tensor([5])) == [1]


def test_what_torch_does_not_compute_is_refused():
    query = torch.zeros(1, 1, 2, 8)
    with pytest.raises(ValueError, match="softcap"):
        packed.attend(torch.nn.Identity(), query, query, query, None, softcap=30.0)


@pytest.mark.parametrize("recipe", ["cobalt", "cobalt_ptb", "single_turn_grpo", "mt_grpo", "verpo"])
def test_without_flash_attention_torch_s_own_is_taken(bare, recipe):
    config = composed(recipe=recipe)
    said = choose_attention(config)
    assert "packed_sdpa (flash-attn is not installed" in said
    model = config.actor_rollout_ref.model
    assert ("token by token" in said) == (not model.use_fused_kernels)
    assert model.override_config.attn_implementation == PACKED and model.external_lib == [attention.MODULE]


def test_an_external_library_of_the_configuration_stays(bare):
    config = composed("actor_rollout_ref.model.external_lib=json")
    choose_attention(config)
    assert config.actor_rollout_ref.model.external_lib == ["json", attention.MODULE]


def test_with_flash_attention_it_is_taken(monkeypatch):
    monkeypatch.setattr(attention, "missing", lambda name: None)
    monkeypatch.setattr(attention, "version", lambda name: "2.8.3")
    config = composed()
    assert choose_attention(config) == "attention: flash_attention_2 (flash-attn 2.8.3)"
    assert config.actor_rollout_ref.model.external_lib is None


def test_what_the_configuration_says_wins():
    two = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"
    config = composed(f"{GIVEN}sdpa", "data.max_prompt_length=4096", two)
    said = choose_attention(config)
    assert said == "attention: sdpa (as the configuration says)"
    assert config.actor_rollout_ref.model.override_config.attn_implementation == "sdpa"


@pytest.mark.parametrize("recipe", ["offline_rl", "rejection_sft"])
def test_offline_recipes_need_no_mask(recipe):
    config = composed(recipe=recipe)
    assert choose_attention(config).startswith("attention: sdpa (rows are padded on the right")


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("cobalt", [f"{GIVEN}flash_attention_2"], "flash-attn is not installed; install it"),
        ("cobalt", [f"{GIVEN}flash_attention_3"], "flash-attn-3 is not installed"),
        ("cobalt", [f"{GIVEN}kernels-community/flash-attn2"], "the package kernels is not installed"),
        ("cobalt", [f"{GIVEN}flash_attn"], "flash_attn is unknown; there are: .*eager"),
        ("offline_rl", [f"{GIVEN}flex_attention"], "recipe offline_rl takes sdpa or eager"),
        ("cobalt", ["actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2"], "needs flash"),
        ("cobalt", ["actor_rollout_ref.ref.ulysses_sequence_parallel_size=2"], "its part of a sequence"),
    ],
)
def test_what_cannot_be_used_is_refused(bare, recipe, overrides, message):
    config = composed(*overrides, recipe=recipe)
    with pytest.raises(InputError, match=message):
        choose_attention(config)


def test_a_package_built_for_another_torch_is_as_good_as_none(monkeypatch):
    def broken(name):
        raise ImportError("flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda\nmore")

    monkeypatch.setattr(attention, "version", lambda name: "2.8.3")
    monkeypatch.setattr(attention.importlib, "import_module", broken)
    assert attention.missing(FLASH) == (
        "flash-attn 2.8.3 cannot be imported (flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda)"
    )


def test_the_name_may_be_given_too(bare):
    config = composed(f"{GIVEN}{PACKED}")
    assert choose_attention(config) == "attention: packed_sdpa (as the configuration says)"
    assert config.actor_rollout_ref.model.external_lib == [attention.MODULE]
