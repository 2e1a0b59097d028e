#!/usr/bin/env bash
# Makes .venv-NAME, once, in which an integration is tested with the other side's own package:
#   scripts/setup_integration.sh sandbox-fusion|trl|verifiers|verifiers-0.3|inspect|trackers
# PYTHON=... interpreter to use (default: that of .venv). Exit status 3: it cannot be installed here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1-} in
sandbox-fusion) packages=(sandbox-fusion==0.3.7) ;;
trl) packages=(torch==2.13.0 trl==1.16.0) ;; # torch first: for a machine without GPUs its wheel is the CPU build
verifiers) packages=(verifiers==0.4.0 uv==0.13.9) ;; # its harness for chats is a script that uv runs
verifiers-0.3) packages=(verifiers==0.3.1) ;;
inspect) packages=(inspect_ai==0.3.285) ;;
trackers) packages=(mlflow==3.17.2 trackio==0.43.0 "swanlab[dashboard]==0.10.3") ;; # beside .venv's packages
*) printf 'usage: %s sandbox-fusion|trl|verifiers|verifiers-0.3|inspect|trackers\n' "$0" >&2; exit 2 ;;
esac
env=.venv-$1 stamp=.venv-$1/.cobalt-setup key="$PWD ${packages[*]}"
[[ -f $stamp && $(<"$stamp") == "$key" ]] && exit 0
rm -rf "$env"
"${PYTHON:-.venv/bin/python}" -m venv "$env"
if [[ $1 == trackers ]]; then # verl and what it needs are those of .venv, seen but not touched
    site='import sysconfig; print(sysconfig.get_path("purelib"))'
    "${PYTHON:-.venv/bin/python}" -c "$site" >"$("$env/bin/python" -c "$site")/zz_beside.pth"
fi
core=(numpy PyYAML pydantic rich) # what cobalt itself needs
for each in "${packages[@]}" "${core[*]}"; do
    # shellcheck disable=SC2086 # a list of names
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check $each || exit 3
done
printf '%s\n' "$key" >"$stamp"
