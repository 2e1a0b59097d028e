#!/usr/bin/env bash
# Development tasks with perturbed public tests, and who bends programs to them: the reference, Cobalt, Cobalt trained
# on perturbed contexts too (Cobalt-PTB), multi-turn GRPO and VeRPO. And Cobalt-PTB on LiveCodeBench, beside Cobalt.
#
# Configuration: configs/qwen3-8b.yaml and configs/r1-distill-llama-8b.yaml
# Expected:      5,290 GPU hours (h100-80), 2,240 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b r1-distill-llama-8b}; do
  run "$model" cobalt
  run "$model" cobalt_ptb train.recipe=cobalt_ptb
  run "$model" mt_grpo train.recipe=mt_grpo "${online[@]}"
  run "$model" verpo train.recipe=verpo "${online[@]}"
  compare perturbed perturb "$model" cobalt cobalt_ptb mt_grpo verpo
  compare livecodebench_ptb evaluate "$model" cobalt cobalt_ptb
done
finish
