#!/usr/bin/env bash
# Hand a training to a running Ray cluster by `ray job submit`, so that it outlives this shell.
#
#   RAY_DASHBOARD=http://10.0.0.1:8265 scripts/cluster/submit.sh RECIPE [--flag value ...] [override=value ...]
#
# Start the head with DASHBOARD=true, which serves the jobs' interface. The checkout must be at the same path on
# the head, data and OUTPUT on a file system that all nodes see. Environment: RAY_DASHBOARD (required), and
# MODEL TRAIN_FILE VAL_FILE PTB_FILE OUTPUT GPUS NODES as for scripts/train_RECIPE.sh.
# Follow it:  ray job logs --follow ID      End it (the last checkpoint stays):  ray job stop ID
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
if [ $# -lt 1 ] || [ "$1" = --help ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit $(($# < 1 ? 2 : 0)); fi
recipe=$1
shift
[ -f "scripts/train_$recipe.sh" ] || die "there is no recipe '$recipe' (verl/config/recipe)"
[[ ${RAY_DASHBOARD:-} == http*://* ]] || die "RAY_DASHBOARD='${RAY_DASHBOARD:-}' must be a URL, as http://10.0.0.1:8265"
environment=$(python - <<'PY'
import json
import os

names = ("MODEL", "TRAIN_FILE", "VAL_FILE", "PTB_FILE", "OUTPUT", "GPUS", "NODES", "PROFILE", "HF_HUB_OFFLINE")
found = {name: os.environ[name] for name in names if name in os.environ}
print(json.dumps({"env_vars": found | {"RAY_ADDRESS": "auto"}}))
PY
)
exec ray job submit --address "$RAY_DASHBOARD" --runtime-env-json "$environment" --no-wait -- \
  "$root/scripts/train_$recipe.sh" --evaluator serve "$@"
