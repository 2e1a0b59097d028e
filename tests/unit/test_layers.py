"""The order of imports, and that importing starts and loads nothing heavy."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A unit (module or package under cobalt/) may import itself and what stands before it, row by row.
LAYERS = [
    ["errors", "cli", "files", "hub", "rows", "schema", "kinds", "testcases", "prompts", "text", "stats"],
    ["output", "rejects", "manifest", "pipeline", "cluster", "sandbox"],
    ["evaluator", "engines", "tasks", "rewards", "contexts"],
    ["rollouts", "training", "evaluation", "report"],
    ["config", "plan", "run", "commands", "data", "doctor", "__main__"],
]
ORDER = {unit: rank for rank, unit in enumerate(unit for layer in LAYERS for unit in layer)}

MAY_IMPORT = {
    "ray": (
        "cobalt.evaluator.service",
        "cobalt.evaluator.remote",
        "cobalt.cluster",
        "cobalt.engines.vllm_server",
        "cobalt.training",
    ),
    "vllm": ("cobalt.engines.vllm_server", "cobalt.training.cpu.vllm_worker", "cobalt.training.verl_compat"),
    "verl": ("cobalt.training",),
}

# Importing these may load torch or ray: they exist to use them.
HEAVY = (
    "cobalt.engines.sampler",
    "cobalt.engines.prefix_cache",
    "cobalt.engines.transformers_engine",
    "cobalt.engines.vllm_server",
    "cobalt.evaluator.service",
)
NOT_LOADED = ("torch", "ray", "vllm", "verl", "transformers", "datasets", "pandas", "litellm")


def modules() -> dict[str, Path]:
    """Every module under cobalt/ by its dotted name."""
    found = {}
    for path in sorted((ROOT / "cobalt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(source: str, name: str, is_package: bool, top_only: bool = False) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of all that a module imports, also inside functions unless `top_only`.

    `from cobalt import output` counts as cobalt.output; imports for type checkers only are left out.
    """
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = name.split(".")[: None if is_package else -1]
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)
        elif not (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(each + ".") for each in packages)


def violations(source: str, name: str, is_package: bool = False) -> list[str]:
    """What a module imports though it must not."""
    found = []
    unit = name.split(".")[1] if "." in name else ""
    for line, target in sorted(imports(source, name, is_package)):
        parts = target.split(".")
        library = MAY_IMPORT.get(parts[0])
        if library is not None and not within(name, library):
            found.append(f"{name}:{line}: imports {parts[0]}, which only {', '.join(library)} may")
        if parts[0] != "cobalt" or len(parts) == 1 or parts[1] == "__version__":
            continue
        if parts[1] not in ORDER:
            found.append(f"{name}:{line}: imports cobalt.{parts[1]}, which has no place in the order")
        elif unit in ORDER and ORDER[parts[1]] > ORDER[unit]:
            found.append(f"{name}:{line}: imports cobalt.{parts[1]}, which comes after cobalt.{unit}")
    return found


@pytest.mark.parametrize("name", modules())
def test_imports_keep_the_order(name):
    path = modules()[name]
    assert name == "cobalt" or name.split(".")[1] in ORDER, f"{name} has no place in the order"
    assert violations(path.read_text(encoding="utf-8"), name, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("cobalt.text", "import cobalt.output", "cobalt.output, which comes after"),
        ("cobalt.text", "def f():\n    from cobalt import output", "text:2: imports cobalt.output"),
        ("cobalt.schema", "from .prompts import load", "cobalt.prompts, which comes after"),
        ("cobalt.tasks.tiny", "from ..contexts.slice import f", "cobalt.contexts, which comes after"),
        ("cobalt.tasks", "import ray", "only cobalt.evaluator.service"),
        ("cobalt.trainings", "import verl.trainer", "only cobalt.training may"),
        ("cobalt.training.launch", "import vllm", "only cobalt.engines.vllm_server, cobalt.training.cpu"),
        ("cobalt.run.main", "import cobalt.misc", "no place in the order"),
        ("cobalt.training.launch", "import ray, verl\nfrom cobalt import output\nfrom . import cpu", None),
        ("cobalt.tasks.tiny", "from cobalt.evaluator.base import E\nfrom .base import x", None),
        ("cobalt.text", "if TYPE_CHECKING:\n    from cobalt.output import x", None),
        ("cobalt.manifest", "import cobalt\nfrom cobalt import __version__", None),
    ],
)
def test_the_check_sees_what_it_should(name, source, found):
    result = violations(source, name)
    assert (result == []) if found is None else (len(result) == 1 and found in result[0])


def test_no_module_imports_itself_in_a_circle():
    names = modules()
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        targets = imports(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", top_only=True)
        # `from package import thing` means package.thing if that is a module, else package.
        graph[name] = {t if t in names else t.rpartition(".")[0] for _, t in targets} & names.keys() - {name}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


PROBE = """
import importlib, json, sys, threading
report = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    loaded = [each for each in json.loads(sys.argv[2]) if each in sys.modules]
    threads = [each.name for each in threading.enumerate()][1:]
    threads = [name for name in threads if name != "coverage_flush"]  # started by `make coverage`
    if loaded or threads:
        report[name] = [loaded, threads]
        break
print(json.dumps(report))
"""


def test_importing_loads_nothing_heavy_and_starts_nothing():
    entry_points = {name for name in modules() if name.endswith(".__main__")}
    names = [n for n in modules() if n not in entry_points and not within(n, (*HEAVY, "cobalt.training"))]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(names), json.dumps(NOT_LOADED)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
