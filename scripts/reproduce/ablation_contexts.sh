#!/usr/bin/env bash
# Ablation: contexts with and without partial trajectories (only problem statements).
# Our own choice: which ablations the paper has is not known here.
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      1,040 GPU hours (h100-80), 570 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" no_partial contexts.partial=false perturb=null
  compare ablation_contexts evaluate "$model" cobalt no_partial
done
finish
