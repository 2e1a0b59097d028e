#!/usr/bin/env bash
# Hand a training to a running Ray cluster by `ray job submit`, so that it outlives this shell.
#
#   RAY_DASHBOARD=http://10.0.0.1:8265 scripts/cluster/submit.sh RECIPE [--flag value ...] [override=value ...]
#
# Start the head with DASHBOARD=true, which serves the jobs' interface. The checkout must be at the same path on
# the head, data and OUTPUT on a file system that all nodes see. Environment: RAY_DASHBOARD (required),
# MODEL TRAIN_FILE VAL_FILE PTB_FILE OUTPUT GPUS NODES PROFILE as for scripts/train_RECIPE.sh, and what
# cobalt/training/forwarded.py lists (caches, NCCL_*, proxies ...). Keys (HF_TOKEN, WANDB_API_KEY) are sent only
# with KEYS=send: they are better set where the head is started. Relative paths are those of the checkout.
# Follow it, in a shell that shows the cluster's token (export RAY_AUTH_MODE=token
# RAY_AUTH_TOKEN_PATH=outputs/.ray-token):  ray job logs --address "$RAY_DASHBOARD" --follow ID
# End it (the last checkpoint stays):       ray job stop --address "$RAY_DASHBOARD" ID
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
if [ $# -lt 1 ] || [ "$1" = --help ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit $(($# < 1 ? 2 : 0)); fi
recipe=$1
shift
[ -f "scripts/train_$recipe.sh" ] || die "there is no recipe '$recipe' (verl/config/recipe)"
[[ ${RAY_DASHBOARD:-} == http*://* ]] || die "RAY_DASHBOARD='${RAY_DASHBOARD:-}' must be a URL, as http://10.0.0.1:8265"
environment=$(mktemp --suffix=.yaml)
trap 'rm -f "$environment"' EXIT
python - >"$environment" <<'PY'
import json
import os
import sys

from cobalt.training.forwarded import forwarded

names = ("MODEL", "TRAIN_FILE", "VAL_FILE", "PTB_FILE", "OUTPUT", "GPUS", "NODES", "PROFILE")
found, keys = forwarded(os.environ, names)
if keys and os.environ.get("KEYS") == "send":
    found |= keys
elif keys:
    print(
        f"not sent, because Ray writes them to its logs: {', '.join(keys)}. Set them where the head is started, "
        "or KEYS=send",
        file=sys.stderr,
    )
print(json.dumps({"env_vars": {**found, "RAY_ADDRESS": "auto", "PYTHONPATH": ""}}))
PY
evaluator=serve
[ "${PROFILE:-gpu}" != cpu ] || evaluator=http://127.0.0.1:${SERVE_PORT:-8000} # a CPU training has a Ray of its own
for try in 1 2 3 4 5 6; do # a head that has just started has no agent yet that could take a job
  status=0
  told=$(ray job submit --address "$RAY_DASHBOARD" --runtime-env "$environment" --no-wait -- \
    env -C "$root" "scripts/train_$recipe.sh" --evaluator "$evaluator" "$@" 2>&1) || status=$?
  [[ $status != 0 && $told == *"No available agent"* ]] || break
  sleep 10
done
[ "$status" = 0 ] || die "$told"
printf '%s\n' "$told"
