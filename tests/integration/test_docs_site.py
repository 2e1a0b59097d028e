"""The site: its navigation names every page, its reference says what the code has, and mkdocs builds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from docs_site import generated

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    before = os.environ.copy()
    made = generated()
    os.environ.clear()
    os.environ.update(before)
    return made


def test_the_navigation_names_every_page_once(pages):
    listed = []

    def walk(tree):
        for item in tree.values() if isinstance(tree, dict) else tree:
            walk(item) if isinstance(item, dict | list) else listed.append(item)

    walk(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    files = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == files | set(pages), "mkdocs.yml: nav, one line per page"


def test_the_reference_has_every_file_and_public_name(pages):
    for folder in (ROOT / "configs", ROOT / "verl" / "config"):
        for path in folder.rglob("*.yaml"):
            assert f"## {path.relative_to(ROOT)}" in pages["reference/files.md"]
    assert "### cobalt.evaluator.local.LocalEvaluator" in pages["reference/python.md"]
    assert "### cobalt.tasks.own.make_task" in pages["reference/python.md"]


def test_pages_from_elsewhere_lead_to_pages_of_the_site(pages):
    home = pages["index.md"]
    assert "](tutorial.md)" in home and "](project/verl.md)" in home and 'src="demo.png"' in home
    assert "](../" not in home and "CITATION.cff" not in home  # no page: its name alone is left
    assert "](../recipes.md)" in pages["project/verl.md"]
    assert "## What stops what" in pages["project/threats.md"]
    assert not re.search(r"^---$", pages["project/tiny_reference.md"].splitlines()[0])


@pytest.mark.slow
@pytest.mark.full
def test_mkdocs_builds_it_without_a_warning(tmp_path):
    tools = ROOT / ".venv-docs"
    if not (tools / ".ready").exists():
        pytest.skip("make docs installs the site's tools")
    env = os.environ | {"PYTHONPATH": str(tools), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Pass@1" in (tmp_path / "site" / "statistics.html").read_text()
