#!/usr/bin/env bash
# One machine: start Ray and the evaluator, train, end both again.
#
#   scripts/cluster/one_node.sh RECIPE [--flag value ...] [hydra.override=value ...]
#
# RECIPE is one of verl/config/recipe; flags are those of `cobalt train`. Environment:
#   GPUS            GPUs to train on                                   (default: all that nvidia-smi lists)
#   EVALUATOR_CPUS  cores that run programs; see `cobalt plan`         (default: a quarter of the cores)
#   RAY_PORT        port of the Ray head                               (default 6379)
#   SERVE_PORT      port on which Serve answers here                   (default 8000)
#   MODEL TRAIN_FILE VAL_FILE OUTPUT PROFILE ...  as for scripts/train_RECIPE.sh
# SIGTERM: the training saves after its step, and everything ends.
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
need_port "${SERVE_PORT:=8000}" SERVE_PORT
trap end_cluster EXIT
note_sigterm
start_head 127.0.0.1 "$RAY_PORT" "$cores" "$GPUS" "$EVALUATOR_CPUS"
[ "$signals" = 0 ] || exit 143
start_evaluator "$EVALUATOR_CPUS" evaluator
[ "$signals" = 0 ] || exit 143
export GPUS NODES=1
train "$recipe" "$@"
