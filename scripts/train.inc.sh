# Sourced by the training scripts: turns their environment into arguments of `cobalt train`.
# Flags in "$@" come last and win; what is left there goes to Hydra.
#   run_training RECIPE "$@"

run_training() {
  local recipe=$1 root python profile
  shift
  case " $* " in *" --help "* | *" -h "*)  # the script's own head, then the flags it passes on
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
    echo
    ;;
  esac
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  python=$root/.venv/bin/python
  [ -x "$python" ] || python=python3
  profile=${PROFILE:-gpu}
  local arguments=(--recipe "$recipe" --profile "$profile" --output "${OUTPUT:-outputs/train_$recipe}")
  [ -z "${MODEL:-}" ] || arguments+=(--model "$MODEL")
  [ -z "${TRAIN_FILE:-}" ] || arguments+=(--train_file "$TRAIN_FILE")
  [ -z "${VAL_FILE:-}" ] || arguments+=(--val_file "$VAL_FILE")
  [ -z "${PTB_FILE:-}" ] || arguments+=(--ptb_file "$PTB_FILE")
  if [ "$profile" != cpu ]; then
    arguments+=("trainer.n_gpus_per_node=${GPUS:-4}" "trainer.nnodes=${NODES:-1}")
  fi
  PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m cobalt train "${arguments[@]}" "$@"
}
