#!/usr/bin/env bash
# TACO development tasks: Cobalt beside the reference.
#
# Configuration: configs/qwen3-8b.yaml and configs/r1-distill-llama-8b.yaml
# Expected:      1,770 GPU hours (h100-80), 570 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b r1-distill-llama-8b}; do
  run "$model" cobalt
  of=$OUT/$model/cobalt/evaluate/taco_dev
  tables "taco_dev_$model" "reference=$of/reference_eval.jsonl" "cobalt=$of/cobalt_eval.jsonl"
done
finish
