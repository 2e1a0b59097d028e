#!/usr/bin/env bash
# Ablation: programs in a collected trajectory: three (published) or two.
# Our own choice: which ablations the paper has is not known here.
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      1,720 GPU hours (h100-80), 570 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" two_turns collect.turns=2 perturb=null
  compare ablation_turns evaluate "$model" cobalt two_turns
done
finish
