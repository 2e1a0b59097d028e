# Sourced by the scripts of this folder. Environment:
#   SMOKE=1   the same stages and scripts with the tiny model and tasks, on two CPU cores in minutes
#   PLAN=1    print what the runs cost (GPU hours, disk) and start nothing; PLAN=write puts it into the head
#   OUT       folder of all runs (default outputs/reproduce, with SMOKE=1 outputs/reproduce-smoke)
#   MODELS    configurations to use, names of files in configs/
#   SEED      of sampling, training and bootstrap (default 0)
# Scripts continue where they were stopped, and share stages whose settings and inputs are equal.
set -euo pipefail
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case ${1:-} in
  "") ;;
  -h | --help)
    sed -s -n '2,/^[^#]/s/^# \{0,1\}//p' "$script" scripts/reproduce/common.inc.sh
    exit 0
    ;;
  *)
    echo "error: $0 takes no arguments (settings are environment variables, see --help)" >&2
    exit 2
    ;;
esac
SMOKE=${SMOKE:-0} PLAN=${PLAN:-0} SEED=${SEED:-0}
OUT=${OUT:-outputs/reproduce$([ "$SMOKE" = 1 ] && echo -smoke || true)}
python=.venv/bin/python
[ -x "$python" ] || python=python3
export RAY_USAGE_STATS_ENABLED=0 TOKENIZERS_PARALLELISM=false
[ "$SMOKE" != 1 ] || export HF_HUB_OFFLINE=1 OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
planned=() made=()
online=(train.max_prompt_tokens=2048 train.max_response_tokens=22528) # of dialogues that are sampled while training

# run CONFIG VARIANT [SECTION.KEY=VALUE ...]: one run of a configuration, in $OUT/CONFIG/VARIANT. With UNTIL=STAGE it
# ends there, and is not part of the plan.
run() {
  local config=configs/$1.yaml folder=$OUT/$1/$2 flags=()
  shift 2
  [ -f "$config" ] || { echo "error: $config does not exist (MODELS names files in configs/)" >&2; exit 2; }
  for setting in "$@"; do flags+=(--set "$setting"); done
  if [ "$PLAN" != 0 ]; then
    [ -n "${UNTIL:-}" ] || planned+=("$config $*")
    return
  fi
  [ -z "${UNTIL:-}" ] || flags+=(--until "$UNTIL")
  [ "$SMOKE" != 1 ] || flags+=(--smoke)
  echo "== $folder"
  "$python" -m cobalt run "$config" --out "$folder" --share "$OUT/shared" --seed "$SEED" --end line ${flags[@]+"${flags[@]}"}
}

# tables NAME RUN=FILE ...: a report of evaluated files (and of what was made from them), in $OUT/report_NAME.
tables() {
  [ "$PLAN" = 0 ] || return 0
  local folder=$OUT/report_$1 flags=()
  shift
  [ "$SMOKE" != 1 ] || flags+=(--smoke)
  "$python" -m cobalt report "$@" -o "$folder" ${flags[@]+"${flags[@]}"}
  made+=("$folder")
}

# compare NAME FOLDER CONFIG VARIANT ...: `tables NAME_CONFIG` of the reference and of the variants' trained models,
# from their runs' FOLDER (evaluate, evaluate/SET, perturb). With perturb go the turns that accepted a wrong test.
compare() {
  local name=$1 folder=$2 config=$3 of=$OUT/$3 files=() variant cases
  shift 3
  for variant in reference "$@"; do
    local from=$of/$variant model=cobalt
    [ "$variant" != reference ] || from=$of/$1 model=reference
    files+=("$variant=$from/$folder/${model}_eval.jsonl")
    [ "$folder" = perturb ] || continue
    cases=$from/hack_analysis/$model
    files+=("${variant}_errors=${cases}_errors.jsonl")
    [ ! -s "${cases}_judged.jsonl" ] || files+=("${variant}_judged=${cases}_judged.jsonl")
  done
  tables "${name}_$config" "${files[@]}"
}

# At the end of a script: one table of what was measured, and what is published beside it, or the cost of all its runs (PLAN=list: the
# runs themselves, one a line; PLAN=write: the cost goes into the head of the script).
finish() {
  local smoke=()
  [ "$SMOKE" != 1 ] || smoke=(--smoke)
  if [ "$PLAN" = 0 ]; then
    [ ${#made[@]} = 0 ] || "$python" scripts/reproduce/combine_reports.py ${smoke[@]+"${smoke[@]}"} "${made[@]}"
  elif [ ${#planned[@]} = 0 ]; then # no run of a configuration: the head says what it costs
    [ "$PLAN" != 1 ] || sed -n 's/^# Expected: *//p' "$script"
  else
    case $PLAN in
      1) "$python" scripts/reproduce/cost.py "${planned[@]}" ;;
      list) printf '%s\n' "${planned[@]}" ;;
      write) sed -i "s/^# Expected:  .*/# Expected:      $("$python" scripts/reproduce/cost.py "${planned[@]}")/" "$script" ;;
    esac
  fi
}
