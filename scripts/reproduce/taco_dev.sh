#!/usr/bin/env bash
# TACO development tasks: Cobalt beside the reference.
#
# Configuration: configs/qwen3-8b.yaml and configs/r1-distill-llama-8b.yaml
# Expected:      1,770 GPU hours (h100-80), 570 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b r1-distill-llama-8b}; do
  run "$model" cobalt
  compare taco_dev evaluate/taco_dev "$model" cobalt
done
finish
