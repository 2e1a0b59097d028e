#!/usr/bin/env bash
# Creates .venv and installs the project, once. `make setup` calls it.
#   PYTHON=...       interpreter to use (default: the first of python3.12, python3.11, python3 that fits)
#   TORCH_INDEX=...  package index for torch only, for those who want the CPU-only build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly min_disk_gb=5
readonly stamp=.venv/.cobalt-setup

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 2
}

say() { printf 'setup: %s\n' "$*"; }

# The folder is part of the key: an environment that was moved must be installed again.
key() { { pwd && cat requirements.txt requirements.lock pyproject.toml; } | sha256sum | cut -d' ' -f1; }

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null
}

can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    local candidate fitting=''
    if [[ -n ${PYTHON:-} ]]; then
        command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON was not found"
        fits "$PYTHON" || fail "PYTHON=$PYTHON is not Python 3.11 or 3.12"
        set -- "$PYTHON"
    else
        set -- python3.12 python3.11 python3
    fi
    for candidate; do
        command -v "$candidate" >/dev/null && fits "$candidate" || continue
        fitting=$candidate
        if can_make_venv "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    [[ -n $fitting ]] ||
        fail "Python 3.11 or 3.12 is needed, and none of $* is one" \
            "install one (Debian, Ubuntu: apt install python3.11 python3.11-venv), or make setup PYTHON=/path/to/it"
    fail "$fitting cannot make virtual environments" \
        "install its venv package (Debian, Ubuntu: apt install python3-venv), or make setup PYTHON=/path/to/another"
}

if [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$(key)" ]]; then
    exit 0
fi

[[ $(uname -s) == Linux ]] ||
    fail "Linux is needed (this is $(uname -s)): programs run in Linux namespaces" \
        "use a Linux machine, WSL 2 or a container"
[[ -w . ]] || fail "cannot write to $PWD"
python=$(find_python)
if [[ -e .venv ]] && ! { [[ -x .venv/bin/python ]] && fits .venv/bin/python; }; then
    fail ".venv exists but holds no working Python 3.11 or 3.12; delete it and run make setup again"
fi
if [[ ! -f $stamp ]]; then
    free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
    ((free_kb >= min_disk_gb * 1024 * 1024)) ||
        fail "$min_disk_gb GB of free disk are needed here, $((free_kb / 1024 / 1024)) GB are free"
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
pip() { .venv/bin/python -m pip "$@"; }

if [[ ! -e .venv ]]; then
    say "making .venv with $("$python" --version) ($python)"
    "$python" -m venv .venv
fi
torch=$(grep '^torch==' requirements.txt)
say "1/3 $torch"
pip install --quiet "$torch" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
say "2/3 requirements.txt"
pip install --quiet -r requirements.txt -c requirements.lock
say "3/3 cobalt, editable"
pip install --quiet --no-deps -e .
key >"$stamp"
say "done"
