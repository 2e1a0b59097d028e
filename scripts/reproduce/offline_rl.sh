#!/usr/bin/env bash
# Offline RL: groups of stored programs, no sampling and no execution while training (arXiv 2605.28409).
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      970 GPU hours (h100-80), 560 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" offline_rl train.recipe=offline_rl train.contexts=32 train.mini_batches=1 train.epochs=1 perturb=null
  of=$OUT/$model
  tables "offline_rl_$model" "reference=$of/cobalt/evaluate/reference_eval.jsonl" \
    "cobalt=$of/cobalt/evaluate/cobalt_eval.jsonl" \
    "offline_rl=$of/offline_rl/evaluate/cobalt_eval.jsonl"
done
finish
