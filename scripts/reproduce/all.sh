#!/usr/bin/env bash
# Every result: all scripts of this folder, then one page with every table, $OUT/index.html.
#
# Configuration: configs/qwen3-8b.yaml, configs/r1-distill-llama-8b.yaml, configs/offline-codenet-0.5b.yaml and configs/offline-codenet.yaml
# Expected:      7,390 GPU hours (h100-80), 3,930 GB of disk
# Published:     see the scripts
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
for name in main_livecodebench taco_dev perturbed ablation_contexts ablation_selection ablation_turns offline_rl; do
  if [ "$PLAN" != 0 ]; then
    mapfile -t -O ${#planned[@]} planned < <(PLAN=list "scripts/reproduce/$name.sh")
    continue
  fi
  echo "=== scripts/reproduce/$name.sh"
  "scripts/reproduce/$name.sh"
done
[ "$PLAN" != 0 ] || "$python" -m cobalt.run.gather "$OUT"
finish
