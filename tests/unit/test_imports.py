"""Importing starts nothing and loads nothing heavy (the order of imports: `make lint`, import-linter)."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Importing these may load torch or ray: they exist to use them.
HEAVY = (
    *("cobalt.engines.sampler", "cobalt.engines.prefix_cache", "cobalt.engines.transformers_engine"),
    *("cobalt.engines.vllm_server", "cobalt.evaluator.service", "cobalt.evaluator.metrics"),
    "cobalt.training",
)
NOT_LOADED = ("torch", "ray", "vllm", "verl", "transformers", "datasets", "pandas", "litellm")


def modules():
    """Every module under cobalt/ by its dotted name."""
    found = {}
    for path in sorted((ROOT / "cobalt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


PROBE = """
import importlib, json, sys, threading
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    loaded = [each for each in json.loads(sys.argv[2]) if each in sys.modules]
    threads = [each.name for each in threading.enumerate()][1:]
    threads = [name for name in threads if name != "coverage_flush"]  # started by `make coverage`
    assert not loaded and not threads, (name, loaded, threads)
"""


def test_importing_loads_nothing_heavy_and_starts_nothing():
    names = [
        name
        for name in modules()
        if not name.endswith(".__main__") and not f"{name}.".startswith(tuple(f"{each}." for each in HEAVY))
    ]
    command = [sys.executable, "-c", PROBE, json.dumps(names), json.dumps(NOT_LOADED)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
