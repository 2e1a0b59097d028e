#!/usr/bin/env bash
# Mutation testing of rewards, selection, statistics and comparison ([tool.mutmut] in pyproject.toml), in a copy of the
# sources, so that no mutated file ever lies in this tree. `make mutants` calls it; a run that was cut off goes on.
#   scripts/mutants.sh [NAME...]   all mutants, or those whose names match (cobalt.stats.*)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly mutmut=3.8.1 least=85 out=outputs/mutants
root=$PWD
export PATH="$root/.venv/bin:$PATH"

python -m pip show --quiet mutmut 2>/dev/null || python -m pip install --quiet "mutmut==$mutmut"
mkdir -p "$out"
cp -ru cobalt tests pyproject.toml "$out"
cd "$out"
# mutmut leaves decorated functions alone; without its cache this one is the same function.
sed -i '/^@lru_cache/d' cobalt/stats.py

mutmut run --max-children "${CHILDREN:-1}" "$@"

echo "Mutants by module (survivors: cd $out && mutmut show NAME):"
mutmut results --all true | awk -v least="$least" '
    NF < 2 || /not checked$/ { next }
    {
        name = $1; sub(/:$/, "", name); status = $0; sub(/^[^:]*: /, "", status)
        module = name; sub(/\.x[^.]*$/, "", module)
        total[module]++
        if (status == "survived" || status == "no tests") { left[module]++; print "  " status " " name }
    }
    END {
        for (module in total) {
            share = 100 * (total[module] - left[module]) / total[module]
            printf "%5.1f %% of %4d killed  %s\n", share, total[module], module
            if (share < least) failed = 1
        }
        if (failed) { printf "less than %d %% killed in a module\n", least; exit 1 }
    }'
