"""The wheel: what is in it, and what works where nothing but the core dependencies is installed."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from cobalt import __version__
from cobalt.cli import EXTRAS, missing_extra

ROOT = Path(__file__).parents[2]
CORE = (
    "numpy", "numpy.libs", "yaml", "_yaml", "rich", "pygments", "markdown_it", "mdurl", "pydantic",
    "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions.py",
)  # fmt: skip
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def sources(target: Path) -> Path:
    """A copy of what a clone holds."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder / "dist"), str(sources(folder / "clone"))],
        check=True,
    )  # fmt: skip
    (made,) = (folder / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """An environment with the wheel and the core dependencies alone, and a folder far from the checkout."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "env", symlinks=True)
    (packages,) = (folder / "env").glob("lib/python3*/site-packages")
    here = Path(importlib.util.find_spec("numpy").origin).parents[1]
    for name in CORE:
        (packages / name).symlink_to(here / name)
    python = str(folder / "env" / "bin" / "python")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, str(wheel)], check=True)
    (folder / "away").mkdir()
    return folder


def call(clean, *command, code=0):
    env = {"PATH": f"{clean / 'env' / 'bin'}:/usr/bin:/bin", "HOME": str(clean)}
    done = subprocess.run(command, cwd=clean / "away", env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"cobalt"}  # above all no verl
    config = {
        str(path.relative_to(ROOT / "verl" / "config")) for path in (ROOT / "verl/config").rglob("*.yaml")
    }
    prefix = "cobalt/training/verl_config/"
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == config
    clone = wheel.parents[1] / "clone"
    modules = {str(path.relative_to(clone)) for path in (clone / "cobalt").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    static = {
        str(path.relative_to(ROOT)) for path in (ROOT / "cobalt/report/static").rglob("*") if path.is_file()
    }
    assert static <= set(names)
    told = Parser().parsestr(metadata)
    assert set(told.get_all("Provides-Extra")) >= {"train", "vllm", "providers", "dev"}
    assert told["License-Expression"] == "MIT" and any(name.endswith("licenses/LICENSE") for name in names)


def test_the_checkout_and_the_wheel_read_the_same_folder():
    from cobalt.training.config import CONFIG_DIR

    assert CONFIG_DIR == ROOT / "verl" / "config"
    assert not list((ROOT / "verl").rglob("*.py"))


@pytest.fixture(scope="module")
def files(clean):
    """A file of tasks and two evaluated files."""
    tests = {"inputs": ["1 2\n"], "outputs": ["3\n"]}
    task = {"id": 0, "difficulty": "EASY", "instruction": "Add two numbers."}
    task |= {f"{kind}test_cases": json.dumps(tests) for kind in ("", "public_", "hidden_")}
    (clean / "away" / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    for name, rates in (("a", [[1.0], [0.0]]), ("b", [[1.0], [1.0]])):
        rows = [
            {"id": i, "conversations": [[]], "public_pass_rates": [[rate]], "all_pass_rates": [[rate]],
             "exec_status": [["ok"]]} for i, (rate,) in enumerate(rates * 4)
        ]  # fmt: skip
        (clean / "away" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_commands_of_the_core(clean, files):
    assert "usage: cobalt COMMAND" in call(clean, "cobalt", "--help").stdout
    assert "1 rows, tasks" in call(clean, "cobalt", "data", "check", "tasks.jsonl").stdout
    assert "programs are run at isolation level" in call(clean, "cobalt", "doctor").stdout
    assert "b against a" in call(clean, "cobalt", "compare", "a.jsonl", "b.jsonl").stdout
    program = (
        "from cobalt.evaluator import LocalEvaluator\n"
        "with LocalEvaluator(1) as evaluator:\n"
        "    program = 'print(sum(map(int, input().split())))'\n"
        "    result = evaluator.evaluate(program, {'inputs': ['1 2'], 'outputs': ['3']})\n"
        "    print(evaluator.isolation, result['passing'])"
    )
    isolation, passing = call(clean, "python", "-c", program).stdout.split()
    assert isolation in ("namespaces", "landlock") and passing == "[True]"
    assert "cobalt, cobalt_ptb, " in call(clean, "cobalt", "train", "--help").stdout


DOOR = "from cobalt.cli import run_main; from cobalt.rollouts.single_turn import main; run_main(main)"
ROLLOUT = ["python", "-c", DOOR, "-i", "tasks.jsonl", "-o", "out.jsonl", "--evaluator", "local"]
ROLLOUT += ["--workers", "1", "--model_name", "gpt-5", "--engine"]


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["cobalt", "train", "--train_file", "x", "--model", ".", "-o", "out"], "train"),
        (["cobalt", "run", "x.yaml", "--out", "out"], "train"),
        (["cobalt", "report", "a.jsonl", "-o", "report"], "report"),
        ([*ROLLOUT, "openai", "--base_url", "http://127.0.0.1:9/v1"], "providers"),
        ([*ROLLOUT, "litellm"], "providers"),
        ([*ROLLOUT, "transformers"], "train"),
    ],
)
def test_what_needs_an_extra_says_which(clean, files, command, extra):
    for name in ("config.json", "pytorch_model.bin"):  # enough for a model that is not opened
        (clean / "away" / name).write_text("{}")
    said = call(clean, *command, code=2).stderr
    assert "Traceback" not in said and said.startswith("error") == (extra != "report")
    assert re.search(rf"pip install .cobalt\[{extra}\].$", said.splitlines()[-1]), said


def test_only_a_missing_library_of_an_extra_is_excused():
    assert (
        missing_extra(ModuleNotFoundError("No module named 'cobalt.nothing'", name="cobalt.nothing")) is None
    )
    assert missing_extra(ModuleNotFoundError("No module named 'torch.nothing'", name="torch.nothing")) is None
    assert "cobalt[train]" in missing_extra(ModuleNotFoundError(name="torch"))


def test_every_library_that_is_imported_has_an_extra_and_a_requirement():
    known = {
        "numpy",
        "yaml",
        "pydantic",
        "rich",
        "tiktoken",
        *(name for names in EXTRAS.values() for name in names),
    }
    known |= {"markdown_it", "typing_extensions"}  # come with rich and pydantic
    for path in (ROOT / "cobalt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            targets = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            targets = [alias.name for alias in node.names] if isinstance(node, ast.Import) else targets
            for target in targets:
                top = (target or "").split(".")[0]
                if top not in sys.stdlib_module_names and top not in ("cobalt", "_signal"):
                    assert top in known, f"{path}: {top} is in no extra (cobalt.cli.EXTRAS)"
    given = {
        re.split(r"[\[<>=]", each)[0].lower()
        for group in PROJECT["optional-dependencies"].values()
        for each in group
    }
    distributions = {"hydra": "hydra-core", "transfer_queue": "transferqueue", "huggingface_hub": "datasets",
                     "starlette": "fastapi", "tokenizers": "transformers",
                     "markupsafe": "jinja2", "packaging": "transformers"}  # fmt: skip
    for libraries in EXTRAS.values():
        assert {distributions.get(name, name) for name in libraries} <= given


def test_pins_fit_the_extras_and_the_lock_fits_the_pins():
    pins = dict(
        re.findall(r"^([A-Za-z0-9_.-]+)(?:\[\w+\])?==(\S+)$", (ROOT / "requirements.txt").read_text(), re.M)
    )
    names = {name.lower().replace("_", "-") for name in pins}
    for extra in ("train", "providers", "report", "dev"):
        for requirement in PROJECT["optional-dependencies"][extra]:
            name = re.split(r"[\[<>=]", requirement)[0].lower()
            assert name in names, f"{requirement} of [{extra}] has no pin in requirements.txt"
    for lock, source in (
        ("requirements.lock", "requirements.txt"),
        ("requirements-gpu.lock", "requirements-gpu.txt"),
    ):
        locked = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", (ROOT / lock).read_text(), re.M))
        pinned = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[\w+\])?==(\S+)$", (ROOT / source).read_text(), re.M)
        for name, version in pinned:
            name = name.lower().replace("_", "-")
            if (
                name != "torch" or lock != "requirements.lock"
            ):  # the CPU build is installed first, from its index
                assert locked.get(name) == version, f"{lock}: {name}, make it again (CONTRIBUTING.md)"


def cpu_s():
    """Seconds of CPU of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.full
def test_wheel_and_sdist_install_from_the_index(tmp_path):
    """As a stranger does it: sdist, wheel from the sdist, and an install that may take a minute."""
    source = sources(tmp_path / "clone")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "tools"], check=True)
    pip = [tmp_path / "tools" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if subprocess.run([*pip, "install", "build"]).returncode:
        pytest.skip("no package index")
    subprocess.run([pip[0], "-m", "build", "--outdir", tmp_path / "dist", source], check=True)
    for pattern in ("*.whl", "*.tar.gz"):
        (made,) = (tmp_path / "dist").glob(pattern)
        began, worked = time.monotonic(), cpu_s()
        subprocess.run([sys.executable, "-m", "venv", tmp_path / pattern[-3:]], check=True)
        python = tmp_path / pattern[-3:] / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", made], check=True)
        took, worked = time.monotonic() - began, cpu_s() - worked
        said = subprocess.run(
            [python.with_name("cobalt"), "--version"], capture_output=True, text=True, check=True
        )
        print(f"{made.name}: {took:.0f} s, {worked:.0f} s of CPU")
        assert said.stdout.strip() == __version__
        assert took < 60


def test_forms_and_citation_are_well_formed():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [path.stem for path in forms] == ["config", "difference", "fault"]
    for path in forms:
        form = yaml.safe_load(path.read_text())
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form)
        for field in form["body"]:
            assert field["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
            assert field["type"] == "markdown" or field["attributes"]["label"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "title", "message", "authors"} <= set(citation)
    names = [author["family-names"] for author in citation["preferred-citation"]["authors"]]
    assert names == ["Chen", "Chen", "Jin", "Liang", "Xie", "Sun"]
    assert "2602.03806" in json.dumps(citation)
    assert "MIT License" in (ROOT / "LICENSE").read_text() and os.access(ROOT / "scripts/setup.sh", os.X_OK)
