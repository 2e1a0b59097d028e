"""The order of imports, and that importing starts and loads nothing heavy."""

import ast
import graphlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A unit (module or package under cobalt/) may import itself and what stands before it, row by row.
LAYERS = [
    *("errors", "cli", "files", "hub", "models", "rows", "schema", "kinds", "testcases", "prompts", "text"),
    *("stats", "output", "manifest", "pipeline", "convert", "cluster", "sandbox"),
    *("evaluator", "engines", "tasks", "rewards", "contexts"),
    *("rollouts", "training", "evaluation", "report"),
    *("config", "plan", "run", "commands", "data", "doctor", "__main__"),
]
MAY_IMPORT = {
    "ray": (
        *("cobalt.evaluator.service", "cobalt.evaluator.metrics", "cobalt.evaluator.remote"),
        *("cobalt.cluster", "cobalt.engines.vllm_server", "cobalt.training"),
    ),
    "vllm": ("cobalt.engines.vllm_server", "cobalt.training.cpu.vllm_worker", "cobalt.training.verl_compat"),
    "verl": ("cobalt.training",),
}
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


def imports(source, top_only=False):
    """Dotted names of all that a module imports, also inside functions unless `top_only`.

    `from cobalt import output` counts as cobalt.output; imports for type checkers only are left out.
    """
    pending = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)
        elif not (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


def within(name, packages):
    return any(name == each or name.startswith(each + ".") for each in packages)


def violations(source, name):
    """What a module imports though it must not."""
    unit = name.split(".")[1] if "." in name else None
    rank = LAYERS.index(unit) if unit else len(LAYERS)
    for target in imports(source):
        parts = target.split(".")
        if not within(name, MAY_IMPORT.get(parts[0], ("cobalt",))):
            yield target
        own = parts[0] == "cobalt" and len(parts) > 1 and parts[1] != "__version__"
        if own and (parts[1] not in LAYERS or LAYERS.index(parts[1]) > rank):
            yield target


def test_imports_keep_the_order_and_make_no_circle():
    names, graph = modules(), {}
    found = {name: list(violations(path.read_text("utf-8"), name)) for name, path in names.items()}
    assert {name: bad for name, bad in found.items() if bad} == {}
    for name, path in names.items():
        targets = imports(path.read_text("utf-8"), top_only=True)
        # `from package import thing` means package.thing if that is a module, else package.
        graph[name] = {t if t in names else t.rpartition(".")[0] for t in targets} & names.keys() - {name}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(
    ("name", "source", "bad"),
    [
        ("cobalt.text", "import cobalt.output", True),
        ("cobalt.text", "def f():\n    from cobalt import output", True),
        ("cobalt.tasks.tiny", "from cobalt.contexts.slice import f", True),
        ("cobalt.tasks", "import ray", True),
        ("cobalt.training.launch", "import vllm", True),
        ("cobalt.run.main", "import cobalt.misc", True),
        ("cobalt.training.launch", "import ray, verl\nfrom cobalt import output", False),
        ("cobalt.text", "if TYPE_CHECKING:\n    from cobalt.output import x", False),
        ("cobalt.manifest", "import cobalt\nfrom cobalt import __version__", False),
    ],
)
def test_the_check_sees_what_it_should(name, source, bad):
    assert bool(list(violations(source, name))) == bad


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
    names = [name for name in modules() if not name.endswith(".__main__") and not within(name, HEAVY)]
    command = [sys.executable, "-c", PROBE, json.dumps(names), json.dumps(NOT_LOADED)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
