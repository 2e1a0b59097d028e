#!/usr/bin/env bash
# Train offline RL on stored groups of completions.
#
#   scripts/train_offline_rl.sh [--flag value ...] [hydra.override=value ...]
#
# Environment (a flag of the same meaning wins, and over both an override: data.train_files, data.val_files,
# actor_rollout_ref.model.path, trainer.default_local_dir):
#   MODEL       Hugging Face folder, or name of a cached model       (default Qwen/Qwen3-8B)
#   TRAIN_FILE  of preproc/preproc_codenet.py or stored_groups       (default data/train.parquet)
#   OUTPUT      folder of this training; run again to continue       (default outputs/train_offline_rl)
#   PROFILE     gpu or cpu                                           (default gpu)
#   GPUS NODES  GPUs per node and nodes, for PROFILE=gpu             (default 4 and 1; one node only)
# All settings: verl/config; the recipe: docs/recipes.md. `--dry_run` checks everything and prints the plan.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/train.inc.sh"
run_training offline_rl "$@"
