#!/usr/bin/env bash
# Ablation: which trajectories of a task are cut: of the largest variance (published), at random, all.
# Our own choice: which ablations the paper has is not known here.
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      2,470 GPU hours (h100-80), 860 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" random contexts.selection=random perturb=null
  run "$model" all contexts.selection=all perturb=null
  compare ablation_selection evaluate "$model" cobalt random all
done
finish
