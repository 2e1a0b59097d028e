#!/usr/bin/env bash
# Train the contextual bandit by GRPO on contexts cut from multi-turn trajectories.
# scripts/train_cobalt.sh under its published name.
#
#   scripts/train_grpo_multi_turn.sh [--flag value ...] [hydra.override=value ...]
#
# Environment (a flag of the same meaning wins, and over both an override: data.train_files, data.val_files,
# actor_rollout_ref.model.path, trainer.default_local_dir):
#   MODEL       Hugging Face folder, or name of a cached model       (default Qwen/Qwen3-8B)
#   TRAIN_FILE  Parquet file from preproc/verl_preproc_multi_turn.py (default data/train.parquet)
#   VAL_FILE    Parquet file for validation                          (default: test.parquet beside TRAIN_FILE)
#   OUTPUT      folder of this training; run again to continue       (default outputs/train_cobalt)
#   PROFILE     gpu or cpu                                           (default gpu)
#   GPUS NODES  GPUs per node and nodes, for PROFILE=gpu             (default 4 and 1)
# Rewards: a running evaluator (`ray start --head; serve run remote_reward_server:app --name evaluator ...`) is
# used, else the training judges on this machine; nothing needs to be started first.
# All settings: verl/config; the recipe: docs/recipes.md. `--dry_run` checks everything and prints the plan.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/train.inc.sh"
run_training cobalt "$@"
