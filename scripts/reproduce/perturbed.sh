#!/usr/bin/env bash
# Development tasks with perturbed public tests, and who bends programs to them: the reference, Cobalt, and
# Cobalt trained on perturbed contexts too (Cobalt-PTB).
#
# Configuration: configs/qwen3-8b.yaml
# Expected:      1,770 GPU hours (h100-80), 600 GB of disk
# Published:     not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for model in ${MODELS:-qwen3-8b}; do
  run "$model" cobalt
  run "$model" cobalt_ptb train.recipe=cobalt_ptb
  of=$OUT/$model
  files=("reference=$of/cobalt/perturb/reference_eval.jsonl" "cobalt=$of/cobalt/perturb/cobalt_eval.jsonl"
    "cobalt_ptb=$of/cobalt_ptb/perturb/cobalt_eval.jsonl")
  for cases in "$of"/cobalt/hack_analysis/{reference,cobalt} "$of/cobalt_ptb/hack_analysis/cobalt"; do
    for kind in errors judged; do
      [ ! -s "${cases}_$kind.jsonl" ] || files+=("${cases}_$kind.jsonl")
    done
  done
  tables "perturbed_$model" "${files[@]}"
done
finish
