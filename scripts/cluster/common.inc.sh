# Sourced by the scripts of this folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
bin=$root/.venv/bin
[ -x "$bin/ray" ] || bin=$(dirname "$(command -v ray)") || { echo "error: ray is not installed here" >&2; exit 2; }
export PATH=$bin:$PATH PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
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

# start_head ADDRESS PORT CPUS GPUS [EVALUATOR]: a Ray head in the background; its process is $head_pid.
# `ray stop` would end every Ray on the machine, so the process is kept and ended by its id.
start_head() {
  ray start --head --block --node-ip-address="$1" --port="$2" --num-cpus="$3" --num-gpus="$4" \
    --include-dashboard="${DASHBOARD:-false}" --resources="{\"evaluator\": ${5:-0}}" >&2 &
  head_pid=$!
  export RAY_ADDRESS=$1:$2
  local try
  for try in $(seq 60); do
    if ray status >/dev/null 2>&1; then return; fi
    kill -0 "$head_pid" 2>/dev/null || die "ray start failed; its messages are above"
    sleep 1
  done
  die "the Ray head at $RAY_ADDRESS did not answer within a minute"
}

# wait_nodes COUNT: until so many nodes have joined
wait_nodes() {
  local try
  for try in $(seq 120); do
    if [ "$(python - <<<'import ray; ray.init(log_to_driver=False); print(sum(n["Alive"] for n in ray.nodes()))' \
      2>/dev/null | tail -1)" = "$1" ]; then return; fi
    sleep 2
  done
  die "fewer than $1 nodes joined $RAY_ADDRESS within four minutes"
}

# start_evaluator CPUS [RESOURCE]: the application, one program per CPU at a time, ready when it returns.
# With RESOURCE its replicas run on nodes that carry it (`ray start --resources='{"RESOURCE": CPUS}'`), and
# their CPUs are taken from there, so that training and evaluator do not share cores.
start_evaluator() {
  local arguments=(replicas="$1" cpus_per_replica=1)
  [ -z "${2:-}" ] || arguments+=(resource="$2")
  say "evaluator: $1 replicas of one CPU${2:+ on nodes with the resource '$2'}"
  serve run --non-blocking --name evaluator --route-prefix /evaluator remote_reward_server:app \
    "${arguments[@]}" >&2
  python - <<'PY' >&2
from cobalt.evaluator import connect

with connect("serve") as evaluator:
    evaluator.wait_ready(180)
print("evaluator: ready")
PY
}
