#!/usr/bin/env bash
# Cobalt from the released data: tasks, perturbed tasks and trajectories as published, nothing collected for training.
# LiveCodeBench, development tasks, and perturbed ones with the turns that accepted a wrong test.
#
# The trajectories are on no hub: put them where the configurations name them (data/released/). Every other script of
# this folder takes these configurations too: MODELS=qwen3-8b-released scripts/reproduce/perturbed.sh
#
# Configuration: configs/qwen3-8b-released.yaml and configs/r1-distill-llama-8b-released.yaml
# Expected:      1,630 GPU hours (h100-80), 540 GB of disk
# Published:     up to +9.0 points Pass@1 on LiveCodeBench (R1-Distill 8B), +6.2 (Qwen3 8B); the rest is not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b-released r1-distill-llama-8b-released}; do
  run "$model" cobalt
  compare livecodebench evaluate "$model" cobalt
  compare taco_dev evaluate/taco_dev "$model" cobalt
  compare perturbed perturb "$model" cobalt
done
finish
