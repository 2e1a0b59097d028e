#!/usr/bin/env bash
# Ablation: contexts with and without partial trajectories (only problem statements).
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      1,040 GPU hours (h100-80), 570 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" no_partial contexts.partial=false perturb=null
  of=$OUT/$model
  tables "ablation_contexts_$model" "reference=$of/cobalt/evaluate/reference_eval.jsonl" \
    "cobalt=$of/cobalt/evaluate/cobalt_eval.jsonl" \
    "no_partial=$of/no_partial/evaluate/cobalt_eval.jsonl"
done
finish
