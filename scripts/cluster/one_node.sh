#!/usr/bin/env bash
# One machine: start Ray and the evaluator, train, end both again.
#
#   scripts/cluster/one_node.sh RECIPE [--flag value ...] [hydra.override=value ...]
#
# RECIPE is one of verl/config/recipe; flags are those of `cobalt train`. Environment:
#   GPUS            GPUs to train on                                   (default: all that nvidia-smi lists)
#   EVALUATOR_CPUS  cores that run programs; see `cobalt plan`         (default: a quarter of the cores)
#   RAY_PORT        port of the Ray head                               (default 6379)
#   MODEL TRAIN_FILE VAL_FILE OUTPUT ...  as for scripts/train_RECIPE.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
if [ $# -lt 1 ] || [ "$1" = --help ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit $(($# < 1 ? 2 : 0)); fi
recipe=$1
shift
[ -f "scripts/train_$recipe.sh" ] || die "there is no recipe '$recipe' (verl/config/recipe)"
GPUS=${GPUS:-$( (nvidia-smi -L 2>/dev/null || true) | wc -l)}
cores=$(nproc)
EVALUATOR_CPUS=${EVALUATOR_CPUS:-$((cores / 4 > 0 ? cores / 4 : 1))}
positive EVALUATOR_CPUS
need_port "${RAY_PORT:=6379}" RAY_PORT
port_free 8000 || die "port 8000, where Serve answers, is in use here: end what listens there"
trap 'kill "${head_pid:-}" "${train_pid:-}" 2>/dev/null; wait' EXIT
start_head 127.0.0.1 "$RAY_PORT" "$cores" "$GPUS" "$EVALUATOR_CPUS"
start_evaluator "$EVALUATOR_CPUS" evaluator
export GPUS NODES=1
# SIGTERM goes on to the training, which saves after its step
trap 'kill -TERM "$train_pid" 2>/dev/null' TERM
evaluator=serve
[ "${PROFILE:-gpu}" = gpu ] || evaluator=http://127.0.0.1:8000  # a CPU training has a Ray of its own
"scripts/train_$recipe.sh" --evaluator "$evaluator" "$@" &
train_pid=$!
status=0
while kill -0 "$train_pid" 2>/dev/null; do wait "$train_pid" && status=0 || status=$?; done
exit "$status"
