"""Command blocks of README and docs are run here, or say what they need and have their flags checked."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from docs_blocks import CHECKED, ROOT, RUN, Block, blocks, pages

from cobalt import __main__ as cli

PAGES = {str(page.relative_to(ROOT)): list(blocks(page)) for page in pages()}
# Programs of other people, and what the shell has: not ours to check.
FOREIGN = {
    "apt", "cat", "cd", "chromium", "cp", "curl", "docker", "echo", "export", "git", "inspect", "ls", "mkdir",
    "pip", "pip-audit", "ray", "rm", "ruff", "sbatch", "source", "transformers", "uv", "vf-eval", "vllm",
}  # fmt: skip
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def listed(mark: str) -> list[Block]:
    return [block for found in PAGES.values() for block in found if block.is_command and block.mark == mark]


def test_every_block_of_commands_says_how_it_is_tested():
    unmarked = [
        f"{block.place}: {block.text.splitlines()[0]}"
        for found in PAGES.values()
        for block in found
        if block.is_command and block.mark not in RUN + CHECKED
    ]
    assert not unmarked, "put <!-- run: WORD --> (docs_blocks.py) before, or name the language\n" + "\n".join(
        unmarked
    )


def test_the_check_sees_what_it_should(tmp_path):
    assert [word for mark in RUN + CHECKED for word in listed(mark)], "no page has a block of commands"
    block = Block(
        "x", "", None, "A=1 cobalt data check x.jsonl > y | head\npython a.py \\\n  --flag 2 && make test\n"
    )
    assert block.commands() == [
        ["cobalt", "data", "check", "x.jsonl"], ["head"], ["python", "a.py", "--flag", "2"], ["make", "test"]
    ]  # fmt: skip
    for wrong in (
        "cobalt train --no_such_flag 1",
        "cobalt nothing",
        "python nowhere.py",
        "make nothing",
        "scripts/x.sh",
    ):
        with pytest.raises(AssertionError):
            check(Block("x", "", "gpu", wrong).commands()[0], "x")
    check(["cobalt", "train", "--train-file", "x", "trainer.nnodes=1"], "x")


def test_ci_runs_what_contributors_do():
    """The workflow's commands exist, and the targets that it and `.ci/run` make are the same."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    made = {"workflow": "\n".join(steps), "script": (ROOT / ".ci" / "run").read_text()}
    targets = {name: set(re.findall(r"^make ([a-z-]+)", text, re.M)) for name, text in made.items()}
    assert targets["script"] == {"lint", "test"} and targets["workflow"] == {"setup", "lint", "test"}
    assert targets["workflow"] <= TARGETS
    told = PAGES["CONTRIBUTING.md"][0].commands()
    assert all(["make", target] in told for target in targets["workflow"])
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML reads `on` as true


@pytest.mark.parametrize("page", [name for name, found in PAGES.items() if any(b.is_command for b in found)])
def test_scripts_exist_and_take_the_flags(page):
    for block in PAGES[page]:
        for command in block.commands() if block.is_command else []:
            check(command, block.place)


def check(command: list[str], place: str) -> None:
    """A command names a script, target or command that exists, and flags that its help lists."""
    program, rest = command[0], command[1:]
    if Path(program).name in ("python", "python3") and rest:
        program, rest = (f"python -m {rest[1]}", rest[2:]) if rest[0] == "-m" else (rest[0], rest[1:])
    if program in FOREIGN or program.startswith(("#", "$", "http")):
        return
    if program == "make":
        for target in rest:
            assert "=" in target or target in TARGETS, f"{place}: there is no target {target}"
        return
    if program == "serve":
        if rest[:1] == ["run"]:
            assert (ROOT / f"{rest[1].partition(':')[0]}.py").exists(), f"{place}: {rest[1]}"
        return
    if program == "cobalt" and rest and not rest[0].startswith("-"):
        words = next((" ".join(rest[:n]) for n in (2, 1) if " ".join(rest[:n]) in cli.COMMANDS), None)
        assert words is not None, f"{place}: there is no command cobalt {rest[0]}"
        known, rest = cobalt_help(words, rest), rest[len(words.split()) :]
    elif program in ("cobalt", "pytest", "python -m pytest"):
        return
    else:
        script = ROOT / program.removeprefix("./")
        assert script.exists(), f"{place}: there is no script {program}"
        if script.suffix != ".py":
            training = script.name.startswith("train_") or "cluster" in script.parts
            known = cobalt_help("train", []) if training else script.read_text()
        else:
            known = door_help(str(script)) if "run_main" in script.read_text() else ""
    for word in rest:
        flag = word.partition("=")[0].replace("-", "_").replace("__", "--", 1)
        if flag.startswith("--") and len(flag) > 2:
            pattern = rf"{flag}(?![a-z_])"
            assert re.search(pattern, known.replace("-", "_").replace("__", "--")), (
                f"{place}: {program} {flag}"
            )


def cobalt_help(words: str, rest: list[str]) -> str:
    given = words.split()
    if words in ("data", "bench"):
        given.append(rest[1])
    return said(tuple(given))


@cache
def said(given: tuple[str, ...]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main([*given, "--help"])
    return out.getvalue()


@cache
def door_help(script: str) -> str:
    out, before = io.StringIO(), (sys.argv, sys.path)
    sys.argv, sys.path = [script, "--help"], [str(Path(script).parent), *sys.path]
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path = before
    return out.getvalue()


def script_of(page: str, slow: bool) -> str:
    """What a page tells the reader to run, in order; without `slow`, up to the first block that is slow."""
    lines = ["set -euo pipefail"]
    for block in PAGES[page]:
        if block.is_python:
            lines += [f"echo at {block.place} >&2", "python - <<'END_OF_BLOCK'", block.text, "END_OF_BLOCK"]
        elif block.mark == "slow" and not slow:
            break
        elif block.mark in RUN:
            lines += [f"echo at {block.place} >&2", block.text]
    return "\n".join(lines)


def run_page(page: str, slow: bool, folder: Path) -> None:
    """A folder like a clone: everything tracked is there, what the page writes stays in the folder."""
    for path in ROOT.iterdir():
        if path.name not in (".git", "outputs", "data", "docs", "own") and not path.name.startswith(".venv"):
            (folder / path.name).symlink_to(path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script_of(page, slow)], cwd=folder, capture_output=True, text=True,
        timeout=5400 if slow else 550,  # the tutorial trains
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def with_mark(*marks: str) -> list[str]:
    return [
        name for name, found in PAGES.items()
        if any(b.mark in marks or (b.is_python and "quick" in marks) for b in found)
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", with_mark("quick"))
def test_quick_blocks_run(page, tmp_path):
    run_page(page, False, tmp_path)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("page", with_mark("slow"))
def test_all_blocks_run(page, tmp_path):
    run_page(page, True, tmp_path)
    if page == "docs/tutorial.md":  # it ends in a gain on held-out tasks
        last = json.loads((tmp_path / "own" / "compare.json").read_text())["comparisons"][-1]
        assert (last["a"], last["b"], last["turn"], last["n"]) == ("before", "after", 2, 300)
        assert last["ci95"][0] > 0 and last["ci95_group"][0] > 0
        assert (tmp_path / "own" / "report" / "index.html").is_file()


@pytest.mark.parametrize(
    "page", [name for name, found in PAGES.items() if any(block.is_python for block in found)]
)
def test_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """All of a page's Python blocks, one after the other, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in PAGES[page]:
        if block.is_python:
            exec(compile(block.text, block.place, "exec"), names)


def test_the_tour_names_files_that_there_are():
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:cobalt|preproc|scripts|verl|examples)/[\w./-]+|\w+\.py)`", text)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert "TODO" not in text


def test_links_lead_somewhere():
    broken = []
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            address, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            place = page if not address else (page.parent / address).resolve()
            if not place.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and place.suffix == ".md" and anchor not in anchors(place):
                broken.append(f"{page.relative_to(ROOT)}: {target} (no such heading)")
    assert not broken, broken


def anchors(page: Path) -> set[str]:
    """Addresses of the headings, as GitHub and the site's slug function make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
