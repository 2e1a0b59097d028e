#!/usr/bin/env bash
# Another machine joins a cluster, and stays until it is ended.
#
#   HEAD=10.0.0.1:6379 scripts/cluster/join.sh
#
# Environment:
#   HEAD            address and port of the head                     (required)
#   GPUS            GPUs of this machine                             (default: all that nvidia-smi lists)
#   CPUS            cores of this machine that Ray may use           (default: all)
#   EVALUATOR_CPUS  cores of this machine that run programs          (default: all on a machine without GPUs,
#                   a quarter on one with)
. "$(dirname "${BASH_SOURCE[0]}")/common.inc.sh"
if [ "${1:-}" = --help ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0; fi
[[ ${HEAD:-} == *:* ]] || die "HEAD='${HEAD:-}' must be the head's address and port, as 10.0.0.1:6379"
GPUS=${GPUS:-$( (nvidia-smi -L 2>/dev/null || true) | wc -l)}
CPUS=${CPUS:-$(nproc)}
positive CPUS
if [ "$GPUS" -gt 0 ]; then spare=$((CPUS / 4)); else spare=$CPUS; fi
EVALUATOR_CPUS=${EVALUATOR_CPUS:-$spare}
say "joining $HEAD with $CPUS CPUs, $GPUS GPUs, $EVALUATOR_CPUS of the CPUs for programs"
cores=$(ray_cores "$CPUS" "$EVALUATOR_CPUS" $((GPUS > 0)))
stopping=no
trap 'stopping=yes; kill "${ray_pid:-}" 2>/dev/null || true' TERM INT
for start in 1 2 3; do # on a busy machine `ray start` gives up after 30 s
  began=$SECONDS
  tied TERM ray start --address="$HEAD" --block --num-cpus="$cores" --num-gpus="$GPUS" \
    --resources="{\"evaluator\": $EVALUATOR_CPUS}" &
  ray_pid=$!
  status=0
  wait "$ray_pid" || status=$?
  [ "$stopping" = no ] || wait "$ray_pid" || status=$?
  if [ "$stopping" = yes ] || [ "$status" = 0 ] || ((SECONDS - began > 90)); then break; fi
done
exit "$status"
