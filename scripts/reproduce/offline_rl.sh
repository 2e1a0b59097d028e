#!/usr/bin/env bash
# Offline RL from stored submissions (arXiv 2605.28409): groups of four programs of Project CodeNet with their verdicts,
# no sampling and no execution while training; a small model with all weights, and 8 B by adapters. Arms: leave-one-out,
# GRPO's and exponential weights, and rejection sampling's choice of the same programs. Tables by difficulty.
#
# CODENET names the folder of Project CodeNet (default data/Project_CodeNet). TINY=1 runs the arms on the tiny family's
# made-up submissions instead, in the same layout, on two CPU cores in minutes (configs/offline-tiny.yaml).
#
# Configuration: configs/offline-codenet-0.5b.yaml and configs/offline-codenet.yaml
# Expected:      20 GPU hours (h100-80), 340 GB of disk
# Published:     most gain on small models and hard problems; figures are not given in the abstract
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
objectives=(rloo grpo exponential sft)
[ "${TINY:-0}" != 1 ] || MODELS=offline-tiny objectives=(rloo exponential sft)
source=()
[ -z "${CODENET:-}" ] || source=("tasks.source=$(realpath "$CODENET")")
for model in ${MODELS:-offline-codenet-0.5b offline-codenet}; do
  arms=()
  for objective in "${objectives[@]}"; do
    arm=$objective recipe=offline_rl
    [ "$objective" != sft ] || arm=rejection_sft recipe=rejection_sft
    run "$model" "$arm" ${source[@]+"${source[@]}"} "train.recipe=$recipe" "train.overrides.0=cobalt.offline.objective=$objective"
    arms+=("$arm=$OUT/$model/$arm/evaluate/cobalt_eval.jsonl")
  done
  tables "offline_rl_$model" "reference=$OUT/$model/rloo/evaluate/reference_eval.jsonl" "${arms[@]}"
  [ "$PLAN" != 0 ] || sed -n '3,$p' "$OUT/report_offline_rl_$model/tables/breakdown.md"
done
finish
