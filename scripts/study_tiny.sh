#!/usr/bin/env bash
# Cobalt, its rivals and offline training on the tiny task family: equal samples, equal wall time, learning rates from
# one grid.
# Resumable run by run; hours on two cores. Ends with a table in outputs/study_tiny/study.md and a comparison.
#
#   scripts/study_tiny.sh [--steps 30] [--seeds 3] [--arms cobalt mt_grpo ...] [--out FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
[ -x "$python" ] || python=python3
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1} TOKENIZERS_PARALLELISM=false
exec "$python" scripts/study_tiny.py "$@"
