# Sourced by the scripts of this folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
bin=$root/.venv/bin
[ -x "$bin/ray" ] || bin=$(dirname "$(command -v ray)") || { echo "error: ray is not installed here" >&2; exit 2; }
export PATH=$bin:$PATH PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# the whole cluster ends, so nothing need be moved elsewhere first (30 s by default)
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=${RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S:-0}
export RAY_USAGE_STATS_ENABLED=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1}
# the published deadline for a reward request to be accepted; must be set before Serve starts
export RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S=${RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S:-10.0}
# Serve kills its HTTP process if that is not up after 5 s, and does not start: a busy machine needs longer
export RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=${RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S:-60}

# Every process of the cluster shows this token. Machines that share the checkout share it; otherwise copy the
# file, or name one by RAY_AUTH_TOKEN_PATH.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=${RAY_AUTH_TOKEN_PATH:-$root/outputs/.ray-token}
if [ ! -s "$RAY_AUTH_TOKEN_PATH" ]; then
  mkdir -p "$(dirname "$RAY_AUTH_TOKEN_PATH")"
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")
fi

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

say() { printf '%s\n' "$*" >&2; }

# port_free PORT: whether nothing listens on it here
port_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

need_port() {
  [[ $1 =~ ^[0-9]+$ ]] || die "port '$1' is not a number"
  port_free "$1" || die "port $1 is in use here: choose another ($2=...), or end what listens there"
}

# positive NAME: checks that the variable of that name holds a whole number of at least 1
positive() { [[ ${!1} =~ ^[1-9][0-9]*$ ]] || die "$1='${!1}' must be a whole number of at least 1"; }

# tied SIGNAL COMMAND ... & : in the background, sent the signal if this shell is killed.
tied() {
  if command -v setpriv >/dev/null; then exec setpriv --pdeathsig "$@"; fi
  exec "${@:2}"
}

# first_free PORT: the first port from there on that nothing listens on here
first_free() {
  local port=$1
  until port_free "$port"; do port=$((port + 1)); done
  echo "$port"
}

# own_address: the address of this machine that others reach
own_address() {
  local found
  found=${ADDRESS:-$(hostname -I 2>/dev/null | awk '{ print $1 }')}
  echo "${found:-127.0.0.1}"
}

# ray_cores CPUS EVALUATOR LEAST: cores that are left for Ray's own workers. On a node without any (LEAST 0) verl
# places no process, so that a training lives on when the node is lost.
ray_cores() { echo $(($1 - $2 > $3 ? $1 - $2 : $3)); }

# start_head ADDRESS PORT CPUS GPUS [EVALUATOR]: a Ray head in the background; its process is $head_pid.
# `ray stop` would end every Ray on the machine, so the process is kept and ended by its id. On a busy machine
# `ray start` gives up after 30 s: it gets three of them.
start_head() {
  export RAY_ADDRESS=$1:$2
  local start cores deadline=$((SECONDS + 180))
  cores=$(ray_cores "$3" "${5:-0}" 1)
  for start in 1 2 3; do
    tied TERM ray start --head --block --node-ip-address="$1" --port="$2" --num-cpus="$cores" --num-gpus="$4" \
      --include-dashboard="${DASHBOARD:-false}" --dashboard-port="${DASHBOARD_PORT:-8265}" \
      --resources="{\"evaluator\": ${5:-0}}" >&2 &
    head_pid=$!
    while kill -0 "$head_pid" 2>/dev/null; do
      if ray status 2>/dev/null | grep -q node_ || [ "$signals" != 0 ]; then return; fi
      ((SECONDS < deadline)) || die "the Ray head at $RAY_ADDRESS did not answer within three minutes"
      sleep 1
    done
  done
  die "ray start failed; its messages are above"
}

# end_cluster: the processes that were started here, and nothing else
end_cluster() {
  local each seen
  kill ${train_pid:-} ${head_pid:-} ${joined_pid:-} 2>/dev/null || true
  for each in ${train_pid:-} ${head_pid:-} ${joined_pid:-}; do
    while seen=$signals; wait "$each" 2>/dev/null || true; [ "$signals" != "$seen" ]; do :; done
  done
  train_pid='' head_pid='' joined_pid=''
}

# note_sigterm: from here on SIGTERM is counted, and passed on to the training, which saves after its step
signals=0
note_sigterm() {
  trap 'signals=$((signals + 1)); [ -z "${train_pid:-}" ] || kill -TERM "$train_pid" 2>/dev/null || true' TERM
}

# train RECIPE [ARGUMENT ...]: with the evaluator that was started; returns the training's status
train() {
  local evaluator=serve status=0 seen
  [ "${PROFILE:-gpu}" != cpu ] || evaluator=http://127.0.0.1:$SERVE_PORT # a CPU training has a Ray of its own
  # without this shell there is no evaluator soon, and no step that could end
  tied KILL "scripts/train_$1.sh" --evaluator "$evaluator" "${@:2}" &
  train_pid=$!
  [ "$signals" = 0 ] || kill -TERM "$train_pid" 2>/dev/null || true
  while seen=$signals; wait "$train_pid" && status=0 || status=$?; [ "$signals" != "$seen" ]; do :; done
  train_pid=''
  return "$status"
}

# wait_nodes COUNT: until so many nodes have joined
wait_nodes() {
  local try
  for try in $(seq 120); do
    if [ "$signals" != 0 ] || python - "$1" 2>/dev/null <<'PY'
import sys

import ray

ray.init(log_to_driver=False)
sys.exit(sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[1]))
PY
    then return; fi
    kill -0 "$head_pid" 2>/dev/null || die "the Ray head ended; its messages are above"
    [ -z "${joined_pid:-}" ] || kill -0 "$joined_pid" 2>/dev/null || die "a node could not join; see above"
    sleep 2
  done
  die "fewer than $1 nodes joined $RAY_ADDRESS within four minutes"
}

# start_evaluator CPUS [RESOURCE]: the application, one program per CPU at a time, ready when it returns.
# With RESOURCE its replicas run on nodes that carry it (`ray start --resources='{"RESOURCE": CPUS}'`), and
# take of it in place of CPU: start the node with so many CPUs fewer, and training and evaluator share no cores.
start_evaluator() {
  local arguments=(replicas="$1" cpus_per_replica=1)
  [ -z "${2:-}" ] || arguments+=(resource="$2")
  say "evaluator: $1 replicas of one CPU${2:+ on nodes with the resource '$2'}"
  serve start --http-host 127.0.0.1 --http-port "${SERVE_PORT:=8000}" --proxy-location HeadOnly >&2
  serve run --non-blocking --name evaluator --route-prefix /evaluator remote_reward_server:app \
    "${arguments[@]}" >&2
  python - <<'PY' >&2
from cobalt.evaluator import connect

with connect("serve") as evaluator:
    evaluator.wait_ready(180)
print("evaluator: ready")
PY
}
