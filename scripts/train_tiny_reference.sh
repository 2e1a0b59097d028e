#!/usr/bin/env bash
# Make models/tiny-reference again from nothing: train_tiny_reference.sh [OUTPUT] [flags of tiny_reference/make.py];
# with --version 2 that of the second family (outputs/tiny-reference unless named)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$root/outputs/tiny-reference
case "${1:--}" in -*) ;; *) output=$1 && shift ;; esac
python=${PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3
export OMP_NUM_THREADS=1 # results depend on the number of threads; one makes them repeatable
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" "$root/scripts/tiny_reference/make.py" --output "$output" "$@"
