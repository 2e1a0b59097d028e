"""Composed configurations: the released settings arrive under verl's names, mistakes are one message."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cobalt.errors import InputError
from cobalt.training import trackers
from cobalt.training.config import CONFIG_DIR, compose, verl_folder

# What our files add to verl's configuration; every other key must exist there, or it would do nothing.
ADDED = (
    "cobalt.",
    "ray_kwargs.ray_init.",
    "trainer.v1.sampler.sampler_kwargs.",
    "trainer.v1.sampler.custom_sampler.",
    "actor_rollout_ref.model.override_config.",
    "actor_rollout_ref.actor.optim.override_optimizer_config.",  # free-form in verl
    "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision.",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile",
    "trainer.max_actor_ckpt_to_keep",
)
PUBLISHED = {
    "algorithm.adv_estimator": "grpo",
    "algorithm.norm_adv_by_std_in_grpo": True,
    "algorithm.kl_ctrl.kl_coef": 1e-4,
    "data.train_batch_size": 128,
    "data.max_response_length": 6144,
    "actor_rollout_ref.actor.optim.lr": 1e-6,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 64,
    "actor_rollout_ref.actor.ppo_epochs": 1,
    "actor_rollout_ref.actor.entropy_coeff": 0,
    "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
    "actor_rollout_ref.actor.optim.clip_grad": 1.0,
    "actor_rollout_ref.actor.grad_clip": 1.0,
    "actor_rollout_ref.actor.clip_ratio_c": 3.0,
    "actor_rollout_ref.actor.shuffle": False,
    "actor_rollout_ref.actor.optim.weight_decay": 0.01,
    "actor_rollout_ref.actor.optim.betas": [0.9, 0.999],
    "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
    "actor_rollout_ref.actor.optim.lr_warmup_steps": -1,
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": 0.0,
    "algorithm.use_kl_in_reward": False,
    "algorithm.rollout_correction.bypass_mode": False,
    "algorithm.rollout_correction.rollout_is": None,
    "algorithm.rollout_correction.rollout_rs": None,
    "data.shuffle": True,
    "trainer.val_before_train": True,
    "cobalt.token_mean_over": 2,
    "actor_rollout_ref.actor.clip_ratio_low": 0.2,
    "actor_rollout_ref.actor.clip_ratio_high": 0.4,
    "actor_rollout_ref.actor.use_kl_loss": True,
    "actor_rollout_ref.actor.kl_loss_coef": 1e-4,
    "actor_rollout_ref.actor.kl_loss_type": "mse",
    "actor_rollout_ref.actor.fsdp_config.param_offload": False,
    "actor_rollout_ref.model.use_remove_padding": True,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "actor_rollout_ref.rollout.name": "vllm",
    "actor_rollout_ref.rollout.n": 16,
    "actor_rollout_ref.rollout.temperature": 1.0,
    "actor_rollout_ref.rollout.val_kwargs.temperature": 0.6,
    "actor_rollout_ref.rollout.val_kwargs.top_p": 0.95,
    "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.7,
    "actor_rollout_ref.rollout.max_num_batched_tokens": 16384,
    # ours: no effect on what is learned, so that 8 B fit (docs/differences.md)
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 1,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 1,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 1,
    "actor_rollout_ref.model.use_fused_kernels": True,
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload": True,
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 4,
    "trainer.save_freq": 10,
    "trainer.test_freq": 10,
    "trainer.critic_warmup": 0,
    "trainer.project_name": "code-mtrl",
}
DIFFERS = {
    "multi_turn": {
        "data.max_prompt_length": 10240,
        "actor_rollout_ref.model.path": "Qwen/Qwen3-8B",
        "actor_rollout_ref.ref.fsdp_config.param_offload": True,
        "trainer.total_epochs": 2,
    },
    "single_turn": {
        "data.max_prompt_length": 2048,
        "actor_rollout_ref.model.path": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        "actor_rollout_ref.ref.fsdp_config.param_offload": False,
        "trainer.total_epochs": 4,
    },
}


@pytest.mark.parametrize("recipe", ["multi_turn", "single_turn"])
def test_the_gpu_profile_has_the_released_settings(recipe):
    given = {"cobalt.config_dir": str(CONFIG_DIR)}
    config = compose(recipe, "gpu", "published", given)
    for key, value in {**PUBLISHED, **DIFFERS[recipe]}.items():
        assert OmegaConf.select(config, key) == value, key
    with Path(config.actor_rollout_ref.rollout.agent.agent_loop_config_path).open() as file:
        assert "single_turn_agent" in file.read()
    assert config.reward.reward_manager.name == "CobaltReward"
    assert config.cobalt.reward_profile == "published" and config.cobalt.token_counter == "o200k_base"


def test_later_files_and_overrides_win():
    text = "a b, it's back\\slash {x}=é"
    values = {"data.seed": 7, "data.train_files": text, "data.val_files": "mine"}
    overrides = [
        "actor_rollout_ref.rollout.n=4",
        "data.val_files=theirs",
        "actor_rollout_ref.actor.grad_clip=0.5",
        "cobalt.max_masked_share=0.3",
    ]
    config = compose("multi_turn", "cpu", "tiny", values, overrides)
    assert config.data.max_prompt_length == 960 and config.data.seed == 7
    assert (config.data.train_files, config.data.val_files) == (text, "theirs")
    sampler = config.trainer.v1.sampler.sampler_kwargs
    assert (sampler.samples_per_prompt, sampler.max_masked_share, sampler.poll_interval_s) == (4, 0.3, 0.02)
    assert config.trainer.device == "cpu" and config.trainer.test_freq == -1
    assert config.actor_rollout_ref.actor.clip_ratio_high == 0.4  # published, at every scale
    assert config.actor_rollout_ref.actor.optim.clip_grad == 0.5  # the one that verl's engine reads


def test_our_files_set_no_key_that_verl_does_not_have():
    from hydra import compose as plain
    from hydra import initialize_config_dir

    with initialize_config_dir(str(verl_folder() / "trainer" / "config"), version_base=None):
        known = _keys(OmegaConf.to_container(plain("ppo_trainer")))
    for profile in ("cpu", "gpu"):
        ours = _keys(OmegaConf.to_container(compose("multi_turn", profile, "tiny", {})))
        ours.discard(
            "transfer_queue.backend.SimpleStorage.required_node_resource"
        )  # the library's own, optional
        assert {key for key in ours - known if not key.startswith(ADDED)} == set()


def _keys(tree, path=""):
    if not isinstance(tree, dict) or not tree:
        return {path}
    return {key for name, value in tree.items() for key in _keys(value, f"{path}.{name}".lstrip("."))}


ROLLOUT, CORRECTION = "actor_rollout_ref.rollout", "algorithm.rollout_correction"
ONLINE, GPUS = ("multi_turn", "cpu", "tiny", {}), ("multi_turn", "gpu", "published", {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("other", "cpu", "tiny", {}), "recipe 'other' is unknown; there are: cobalt, cobalt_ptb, "),
        (("multi_turn", "tpu", "tiny", {}), "profile 'tpu'"),
        ((*ONLINE, ["data.train_batch_sise=8"]), "train_batch_sise"),
        ((*ONLINE, ["nonsense"]), "nonsense"),
        ((*ONLINE[:2], "huge", {}), "scale 'huge'"),
        (
            (*ONLINE, ["reward_model.reward_manager=prime"]),
            "reward_model.reward_manager: verl 0.9.1 accepts this old key and ignores it",
        ),
        ((*ONLINE, ["reward_model.model.path=mine"]), "reward_model.model.path: verl 0.9.1 accepts"),
        (
            ("offline_rl", "cpu", "tiny", {}, ["+cobalt.offline.lora_rank=8"]),
            "cobalt.offline.lora_rank is not read: set actor_rollout_ref.model.lora_rank",
        ),
        ((*ONLINE, ["custom_reward_function.path=mine.py"]), "custom_reward_function.path"),
        ((*ONLINE[:3], {"cobalt.evaluator": "serve"}), "--evaluator serve: the CPU profile trains in a Ray"),
        (
            (*GPUS, ["reward.custom_reward_function.path=mine.py"]),
            "reward.custom_reward_function.path is not read: cobalt.reward=FILE.py:NAME",
        ),
        (
            (*GPUS, ["algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=grade"]),
            "metric must be one of reward, score, seq_reward, seq_final_reward, acc, pass_rate, got",
        ),
        (("offline_rl", *ONLINE[1:], ["algorithm.filter_groups.enable=true"]), "nothing is sampled"),
        (
            (
                *GPUS,
                ["algorithm.filter_groups.enable=true", "algorithm.filter_groups.max_inflight_gen_batches=2"],
            ),
            "max_inflight_gen_batches is not read",
        ),
        ((*GPUS, ["trainer.v1.sampler.sync_refill_failed_groups=true"]), "a failed group stops the run"),
        (
            (*ONLINE, ["trainer.logger=[file,tensorbord]"]),
            "trainer.logger: 'tensorbord' is unknown; there are",
        ),
        ((*GPUS, [f"{ROLLOUT}.top_p=0.8"]), "are not the policy's, whose probabilities are learnt from"),
        ((*GPUS, [f"{ROLLOUT}.top_k=40"]), "top_k=40: such samples are not the policy's"),
        ((*ONLINE, [f"{ROLLOUT}.val_kwargs.top_k=4"]), "top_k=4: the CPU profile does not sample so"),
        (
            (*ONLINE, [f"{CORRECTION}.rollout_is=token", f"{CORRECTION}.bypass_mode=true"]),
            "are not read in bypass_mode",
        ),
        (
            (*GPUS, [f"{CORRECTION}.rollout_rs=token_k1", f"{ROLLOUT}.calculate_log_probs=false"]),
            "needs actor_rollout_ref.rollout.calculate_log_probs=true",
        ),
    ],
)
def test_mistakes_are_one_message(arguments, message):
    with pytest.raises(InputError) as error:
        compose(*arguments)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("[console,file,mlflow]", ["console", "file", "mlflow"]),
        ("[mlflow]", ["mlflow", "file"]),
        ("wandb", ["wandb", "file"]),
        ("[]", ["file"]),
    ],
)
def test_metrics_always_go_to_the_file_that_is_read(given, found):
    assert compose(*ONLINE, [f"trainer.logger={given}"]).trainer.logger == found


def test_trackers_are_those_of_verl_and_are_missed_before_the_start(monkeypatch):
    text = (verl_folder() / "utils" / "tracking.py").read_text()  # importing it takes seconds
    listed = ast.literal_eval(re.search(r"supported_backend = (\[.*?\])", text, re.S)[1])
    assert sorted(trackers.PACKAGES) == sorted(listed)
    config = compose(*ONLINE, ["trainer.logger=[console,file,mlflow]"])
    monkeypatch.setitem(trackers.PACKAGES, "mlflow", "a_package_that_is_not_there")
    with pytest.raises(
        InputError, match=r"trainer.logger=mlflow: .* pip install a_package_that_is_not_there"
    ):
        trackers.check(config)


@pytest.mark.parametrize("where", [ONLINE, GPUS])
def test_a_correction_lets_a_nucleus_be_sampled_and_is_read(where):
    plain = compose(*where)
    config = compose(*where, [f"{CORRECTION}.rollout_is=token", f"{ROLLOUT}.top_p=0.9"])
    assert config.algorithm.rollout_correction.bypass_mode is False
    assert plain.algorithm.rollout_correction.bypass_mode is (where is ONLINE)


def test_the_bound_of_the_gradient_reaches_the_optimiser(tmp_path):
    """verl 0.9.1 reads optim.clip_grad only; what a recipe sets there itself stays."""
    found = compose(*ONLINE, ["actor_rollout_ref.actor.grad_clip=0.1"]).actor_rollout_ref.actor
    assert found.optim.clip_grad == found.grad_clip == 0.1
    own = tmp_path / "mine.yaml"
    own.write_text("defaults: [cobalt]\nactor_rollout_ref: {actor: {optim: {clip_grad: 0.3}}}\n")
    assert compose(str(own), *ONLINE[1:]).actor_rollout_ref.actor.optim.clip_grad == 0.3


def test_a_folder_that_hides_the_library_is_noticed(tmp_path):
    package = tmp_path / "verl"
    package.mkdir()
    (package / "__init__.py").touch()
    code = "from cobalt.training.config import verl_folder; verl_folder()"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
    )  # fmt: skip
    assert "a folder named verl with an __init__.py is in the way" in run.stderr
    assert not (Path(CONFIG_DIR).parent / "__init__.py").exists()
