#!/usr/bin/env bash
# First of several machines: start the Ray head, wait for the others, start the evaluator, and stay.
#
#   NODES=3 scripts/cluster/head.sh
#
# On every other machine:   HEAD=10.0.0.1:6379 scripts/cluster/join.sh
# Then, on this one:        RAY_ADDRESS=10.0.0.1:6379 NODES=2 GPUS=8 scripts/train_cobalt.sh --evaluator serve ...
# Environment:
#   NODES           machines in all, this one included                       (default 1)
#   ADDRESS         address of this machine that the others reach            (default: the first of hostname -I)
#   RAY_PORT        port of the Ray head                                     (default 6379)
#   GPUS            GPUs of this machine                                     (default: all that nvidia-smi lists)
#   CPUS            cores of this machine that Ray may use                   (default: all)
#   EVALUATOR_CPUS  cores of this machine that run programs                  (default 0: on machines that join)
#   EVALUATOR_TOTAL cores that run programs on all machines; `cobalt plan`   (default: all with the resource)
# Ctrl-C or SIGTERM ends the head, and with it the cluster.
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
if [ "${1:-}" = --help ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0; fi
: "${NODES:=1}" "${RAY_PORT:=6379}" "${CPUS:=$(nproc)}" "${EVALUATOR_CPUS:=0}"
GPUS=${GPUS:-$( (nvidia-smi -L 2>/dev/null || true) | wc -l)}
positive NODES
need_port "$RAY_PORT" RAY_PORT
trap end_cluster EXIT
trap 'exit 143' TERM
start_head "$(own_address)" "$RAY_PORT" "$CPUS" "$GPUS" "$EVALUATOR_CPUS"
say "head at $RAY_ADDRESS; waiting for $NODES node(s)"
wait_nodes "$NODES"
EVALUATOR_TOTAL=${EVALUATOR_TOTAL:-$(python - <<'PY'
import ray

ray.init(log_to_driver=False)
print(int(ray.cluster_resources().get("evaluator", 0)))
PY
)}
positive EVALUATOR_TOTAL
start_evaluator "$EVALUATOR_TOTAL" evaluator
say "ready: RAY_ADDRESS=$RAY_ADDRESS"
wait "$head_pid"
