"""The published README as data: its command lines, from first to last. A new door is added here.

`{NAME}` stands where the README has a placeholder. Nothing else is filled in: what a command needs beside the
line itself comes from the environment and the folder it runs in.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """A command line and what it leaves.

    `writes`: files with the kind that `cobalt data check` finds in them. `judged`: programs run, so the same
    line with `--evaluator local` must give the same rows. `stays`: what a server says when it is ready.
    `prints`: what stands in the output.
    """

    section: str
    line: str
    writes: dict[str, str] = field(default_factory=dict)
    judged: bool = False
    stays: str = ""
    prints: tuple[str, ...] = ()


SETUP, DATA, TRAINING, INFERENCE, PROPRIETARY, EVALUATION, HACKING = (
    "code execution", "data", "training", "open-weight models", "proprietary models", "evaluation", "hacking",
)  # fmt: skip

EVALUATOR = Step(
    SETUP, "serve run remote_reward_server:app --name evaluator --route-prefix /evaluator",
    stays="Application 'evaluator' is ready",
)  # fmt: skip
ENGINE = Step(
    INFERENCE, "serve run vllm_engine_actor:app --name vllm_actor --route-prefix /vllm_actor",
    stays="Application 'vllm_actor' is ready",
)  # fmt: skip

SINGLE = Step(
    INFERENCE,
    "python -u run_single_turn_vllm.py --input_file {TASKS} --output_file single.jsonl --max_tokens 6144",
    {"single.jsonl": "single-turn completions"}, judged=True,
)  # fmt: skip
MULTI = Step(
    INFERENCE,
    "python -u run_multi_turn_vllm.py --input_file single.jsonl --output_file multi.jsonl --max_tokens 6144 "
    "--enable_thinking",
    {"multi.jsonl": "trajectories"}, judged=True,
)  # fmt: skip
EVAL = Step(
    EVALUATION, "python eval_multi_turn.py --input_file multi.jsonl --output_file judged.jsonl",
    {"judged.jsonl": "evaluated trajectories"}, judged=True,
    prints=("Hidden Test Cases Pass @ 1: [", "Relative Changes: ["),
)  # fmt: skip

# The keys as flags; empty ones are what a user of one provider types for the other.
_KEYS = "--openai_api_key {KEY} --aws_access_key_id '' --aws_secret_access_key '' --aws_region_name us-west-2"
_SMALL = (
    "--dry_run cobalt.token_counter=policy data.train_batch_size=4 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=2"
)

README = (
    EVALUATOR,
    Step(
        DATA, "python preproc/preproc_taco.py",
        {
            "verl/data/taco_verified_filtered.jsonl": "tasks",
            "verl/data/taco_verified_filtered_train.jsonl": "tasks",
            "verl/data/taco_verified_filtered_dev.jsonl": "tasks",
        },
        judged=True,
    ),
    Step(
        DATA, "python preproc/run_perturbation.py --input_file {TASKS} --output_file perturbed.jsonl",
        {"perturbed.jsonl": "perturbed tasks"},
    ),
    Step(DATA, "python preproc/preproc_lcb_test6.py", {"data/lcb_v6.jsonl": "tasks"}),
    ENGINE,
    SINGLE,
    MULTI,
    EVAL,
    Step(
        DATA,
        "python preproc/process_multi_turn_taco.py --input_file judged.jsonl --output_file contexts.jsonl "
        "--model_name {MODEL}",
        {"contexts.jsonl": "contexts"},
    ),
    Step(
        DATA,
        "python preproc/process_multi_turn_taco.py --input_file judged.jsonl "
        "--output_file dev_contexts.jsonl --model_name {MODEL} --is_test",
        {"dev_contexts.jsonl": "contexts"},
    ),
    # Not in the README itself, but what its training scripts read.
    Step(
        TRAINING, "python preproc/verl_preproc_single_turn.py --local_dir single_turn",
        {"single_turn/train.parquet": "training examples", "single_turn/test.parquet": "training examples"},
    ),
    Step(
        TRAINING,
        "python preproc/verl_preproc_multi_turn.py --local_dir data --train_data_file contexts.jsonl "
        "--val_data_file dev_contexts.jsonl",
        {"data/train.parquet": "training examples", "data/test.parquet": "training examples"},
    ),
    # What only this machine asks for: small batches, the policy's tokenizer to count with, and no GPUs.
    Step(
        TRAINING, f"bash scripts/train_grpo_multi_turn.sh {_SMALL}",
        prints=("data: ", "evaluator answers", "dry run: "),
    ),
    Step(
        TRAINING,
        "bash scripts/train_grpo_single_turn.sh data.train_files=single_turn/train.parquet "
        f"data.val_files=single_turn/test.parquet {_SMALL}",
        prints=("data: ", "evaluator answers", "dry run: "),
    ),
    Step(
        PROPRIETARY,
        "python run_single_turn_litellm.py --model_name gpt-5-mini-2025-08-07 --input_file {TASKS} "
        f"--output_file api_single.jsonl {_KEYS}",
        {"api_single.jsonl": "single-turn completions"}, judged=True,
    ),
    Step(
        PROPRIETARY,
        "python run_multi_turn_litellm.py --model_name gpt-5-mini-2025-08-07 --input_file api_single.jsonl "
        f"--output_file api_multi.jsonl {_KEYS}",
        {"api_multi.jsonl": "trajectories"}, judged=True,
    ),
    Step(
        EVALUATION, "python eval_multi_turn.py --input_file api_multi.jsonl --output_file api_judged.jsonl",
        {"api_judged.jsonl": "evaluated trajectories"}, judged=True,
    ),
    Step(
        HACKING,
        "python -u run_multi_turn_vllm.py --input_file {PTB} --output_file ptb_multi.jsonl --max_tokens 6144",
        {"ptb_multi.jsonl": "trajectories"}, judged=True,
    ),
    Step(
        HACKING, "python eval_multi_turn.py --input_file ptb_multi.jsonl --output_file ptb_judged.jsonl",
        {"ptb_judged.jsonl": "evaluated trajectories"}, judged=True,
    ),
    Step(
        HACKING,
        "python extract_turn_level_errors.py --data_file perturbed.jsonl --input_file ptb_judged.jsonl "
        "--output_file errors.jsonl",
        {"errors.jsonl": "turn errors"},
        prints=("Total cases: ", "Unique trajectories: ", "Unique problems: "),
    ),
    Step(
        HACKING,
        "python run_llm_judge.py --model_name gpt-5-2025-08-07 --input_file errors.jsonl "
        "--output_file verdicts.jsonl --openai_api_key {KEY}",
        {"verdicts.jsonl": "judged turn errors"},
        prints=("Final Classification Counts: ",),
    ),
)  # fmt: skip
# Enough to see every asynchronous door beside the service.
SHORT = (EVALUATOR, ENGINE, SINGLE, MULTI, EVAL)
