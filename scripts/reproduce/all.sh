#!/usr/bin/env bash
# Every result: all scripts of this folder, then one page with every table, $OUT/index.html. A script that lacks
# something (released data, a provider's key) is named at the end, with exit code 2; the others are run all the same.
#
# Configuration: configs/qwen3-8b.yaml, configs/r1-distill-llama-8b.yaml, configs/offline-codenet-0.5b.yaml,
#                configs/offline-codenet.yaml, and from released data configs/qwen3-8b-released.yaml and
#                configs/r1-distill-llama-8b-released.yaml
# Expected:      9,860 GPU hours (h100-80), 4,780 GB of disk
# Published:     see the scripts
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
lacking=()
for name in main_livecodebench taco_dev perturbed ablation_contexts ablation_selection ablation_turns offline_rl \
  released proprietary; do
  if [ "$PLAN" != 0 ]; then
    mapfile -t -O ${#planned[@]} planned < <(PLAN=list "scripts/reproduce/$name.sh")
    continue
  fi
  echo "=== scripts/reproduce/$name.sh"
  code=0
  "scripts/reproduce/$name.sh" || code=$?
  case $code in
    0) ;;
    2) lacking+=("$name") ;;
    *) exit "$code" ;;
  esac
done
if [ "$PLAN" = 0 ]; then
  made=("$OUT"/report_*)
  "$python" scripts/reproduce/combine_reports.py --page "$OUT"
fi
finish
if [ ${#lacking[@]} != 0 ]; then
  echo "error: not run, see what was said above: ${lacking[*]}" >&2
  exit 2
fi
