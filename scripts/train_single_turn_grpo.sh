#!/usr/bin/env bash
# Train the single-turn baseline by GRPO on problem statements.
#
#   scripts/train_single_turn_grpo.sh [--flag value ...] [hydra.override=value ...]
#
# Environment (a flag of the same meaning wins, and over both an override: data.train_files, data.val_files,
# actor_rollout_ref.model.path, trainer.default_local_dir):
#   MODEL       Hugging Face folder, or name of a cached model       (default deepseek-ai/DeepSeek-R1-Distill-Llama-8B)
#   TRAIN_FILE  Parquet file from preproc/verl_preproc_single_turn.py (default data/train.parquet)
#   VAL_FILE    Parquet file for validation                          (default: test.parquet beside TRAIN_FILE)
#   OUTPUT      folder of this training; run again to continue       (default outputs/train_single_turn_grpo)
#   PROFILE     gpu or cpu                                           (default gpu)
#   GPUS NODES  GPUs per node and nodes, for PROFILE=gpu             (default 4 and 1)
# Rewards: a running evaluator (`ray start --head; serve run remote_reward_server:app --name evaluator ...`) is
# used, else the training judges on this machine; nothing needs to be started first.
# All settings: verl/config; the recipe: docs/recipes.md. `--dry_run` checks everything and prints the plan.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/train.inc.sh"
run_training single_turn_grpo "$@"
