"""Two steps of a training of a tiny random model: whether everything that a real one needs works here."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError

# What the tasks ask for is one more than the input: the first is right, the second on one test of four, the
# third on none.
PROGRAMS = ("print(int(input()) + 1)", "print(5)", "print('?')")
TESTS = {"inputs": ["1\n", "2\n", "3\n", "4\n"], "outputs": ["2\n", "3\n", "4\n", "5\n"]}
SPECIAL = ["<pad>", "<|im_end|>", "<|im_start|>"]
STEPS = 2
BOUND = 0.05  # of a token's probability: bfloat16 stays at 0.006, other weights reach 0.4 (docs/cluster.md)
_SPREAD = 0.1  # of the random weights, so that other weights mean other probabilities
_DIFF = "training/rollout_probs_diff_max"
_SETTINGS = (
    "data.max_prompt_length=64",
    "data.max_response_length=8",
    "actor_rollout_ref.actor.optim.lr=0.01",  # an update that is missed must show
    "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    "algorithm.rollout_correction.bypass_mode=false",
    "cobalt.token_counter=policy",
    "trainer.logger=[console,file]",
)


def make_model(
    folder: Path,
    *,
    programs: Sequence[str] = PROGRAMS,
    head_dim: int = 8,
    positions: int = 64,
    other: str = r"[\s\S]",
    spread: float = 0.02,
) -> Path:
    """A random Qwen3 that writes one or two tokens, and its tokenizer, whose tokens are whole programs.

    ``other``: a token of other text; ``spread``: deviation of the random weights.
    """
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = [f"```python\n{program}\n```" for program in programs] + ["word", " ", "\n"]
    roles = ["system\n", "user\n", "assistant\n", *(f"Task {i}" for i in range(10))]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *words, *roles, "<unk>"])}
    core = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True, unk_token="<unk>"))
    pattern = r"```python\n[^`]*\n```|(system|user|assistant)\n|Task \d|word|" + other
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens(SPECIAL)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<|im_end|>", unk_token="<unk>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] + '\n' + m['content'] }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{{ 'assistant\n' }}{% endif %}"
    )
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=head_dim, max_position_embeddings=positions,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=1, pad_token_id=0, initializer_range=spread,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows(split: str, count: int) -> list[dict[str, Any]]:
    """Rows as the preprocessing writes them; the previous best pass rate is 0 or 0.25."""
    made = []
    for i in range(count):
        prompt = [{"role": "user", "content": f"Task {i % 10}"}]
        if i % 2:
            prompt += [{"role": "assistant", "content": "word"}, {"role": "user", "content": "Task 0"}]
        made.append(
            {
                "data_source": "code_taco_verified",
                "prompt": prompt,
                "ability": "code",
                "reward_model": {"style": "rule", "ground_truth": json.dumps(TESTS)},
                "extra_info": {"split": split, "index": i, "prev_best_pass_rate": 0.25 * (i % 2)},
            }
        )
    return made


def smoke(profile: str = "gpu", overrides: Sequence[str] = (), *, evaluator: str = "local") -> str:
    """Train `STEPS` steps of recipe ``cobalt`` on all GPUs there are (none: as many as the profile says),
    without the hub, in a temporary folder that is kept if it fails. Returns what was seen, in one line.

    Raises InputError for a profile that cannot run here, InfraError if the training fails or if rollout and
    trainer disagree, which they do where weights do not arrive.
    """
    import pandas as pd
    import torch

    from cobalt.training.config import compose
    from cobalt.training.launch import train

    trainer = compose("cobalt", profile, "tiny", {}, overrides).trainer
    found = 0 if trainer.device == "cpu" else torch.cuda.device_count()
    devices = found or int(trainer.n_gpus_per_node) * int(trainer.nnodes)
    mini = f"actor_rollout_ref.actor.ppo_mini_batch_size={devices}"
    sizes = [f"data.train_batch_size={2 * devices}", mini]
    gpus = [f"trainer.n_gpus_per_node={found}", "trainer.nnodes=1"] if found else []
    folder = Path(tempfile.mkdtemp(prefix="cobalt-smoke-"))
    try:
        for split, count in (("train", 4 * devices), ("test", 2)):
            pd.DataFrame(rows(split, count)).to_parquet(folder / f"{split}.parquet")
        result = train(
            train_file=folder / "train.parquet",
            val_file=folder / "test.parquet",
            model=make_model(folder / "model", head_dim=64, positions=128, spread=_SPREAD),
            output=folder / "out",
            profile=profile,
            scale="tiny",
            steps=STEPS,
            evaluator=evaluator,
            overrides=[*gpus, *_SETTINGS, *sizes, *overrides],
        )
        differences = [step.get(_DIFF) for step in result.metrics]
        for step, value in enumerate(differences, start=1):
            if value is None or not value <= BOUND:
                raise InfraError(
                    f"step {step}: {_DIFF} is {value}, and may be {BOUND} at most: rollout and trainer have "
                    "other weights (docs/cluster.md)"
                )
    except InfraError as error:
        raise InfraError(f"{error}\n(kept: {folder})") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return (
        f"two steps on {devices} device(s) in {result.wall_s:.1f} s (the first after "
        f"{result.first_step_s or 0.0:.1f} s); rollout and trainer differ by "
        f"{max(value or 0.0 for value in differences):.1e} at most"
    )
