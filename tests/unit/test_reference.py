"""The reference pages: as the code has it; every key, setting, prompt and flag is there with its meaning."""

import contextlib
import dataclasses
import io
import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import reference

from cobalt import __main__ as cli
from cobalt.config.config import Config
from cobalt.prompts import Prompts

ROOT = Path(__file__).parents[2]
SERVED = ("remote_reward_server.py", "vllm_engine_actor.py", "setup.py")
DOORS = [*ROOT.glob("*.py"), *ROOT.glob("preproc/*.py"), *ROOT.glob("benchmarks/*.py")]
DOORS = [path for path in sorted(DOORS) if "run_main(" in path.read_text() and path.name not in SERVED]


def page(name):
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def rows(text):
    """{first cell without code marks: last cell} of all tables."""
    lines = [line.strip("| ") for line in text.splitlines() if line.startswith("| `")]
    cells = [re.split(r" (?<!\\)\| ", line) for line in lines]
    return {each[0].strip("`"): each[-1].strip() for each in cells if len(each) > 2}


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_that_of_the_code(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    parts = reference.PAGES[name]
    assert reference.renewed(page(name), parts) == page(name), "run: python scripts/reference.py"
    with pytest.raises(ValueError, match="once"):
        reference.renewed(page(name).replace("<!-- end -->", ""), parts)


def schema_keys(node, whole, before=""):
    """Dotted keys by pydantic's own schema: another way than that of the page."""
    node = next((each for each in node.get("anyOf", []) if "$ref" in each), node)
    if "$ref" in node:
        node = whole["$defs"][node["$ref"].rpartition("/")[2]]
    for key, value in node.get("properties", {}).items():
        yield before + key
        below = value.get("items", value)
        yield from schema_keys(below, whole, f"{before}{key}.{'N.' if 'items' in value else ''}")


def test_every_key_of_a_configuration_has_type_and_meaning():
    whole = TypeAdapter(Config).json_schema()
    wanted, found = list(schema_keys(whole, whole)), rows(page("configuration.md"))
    assert {"tasks.train_file", "evaluate.sets.N.kind", "execution.serving.command"} <= set(wanted)
    assert set(wanted) == set(found)
    assert [key for key in wanted if len(found[key]) < 6] == []


def test_every_training_setting_has_a_meaning():
    def walk(tree, before):
        for key, value in tree.items():
            yield f"{before}.{key}"
            yield from walk(value, f"{before}.{key}") if isinstance(value, dict) else ()

    given = yaml.safe_load((ROOT / "verl/config/published.yaml").read_text())["cobalt"]
    found = rows(page("training.md"))
    assert set(walk(given, "cobalt")) == set(found) and all(found.values())


def test_every_key_of_a_prompts_file_has_a_meaning():
    found = rows(page("prompts.md"))
    assert set(found) == {field.name for field in dataclasses.fields(Prompts)} and all(found.values())


def help_of(words, path):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main([*words, "--help"]) if words else runpy.run_path(path, run_name="__main__")
    return out.getvalue()


@pytest.mark.parametrize(
    "name", [*(f"cobalt {word}" for word in cli.COMMANDS), *(str(path.relative_to(ROOT)) for path in DOORS)]
)
def test_every_flag_that_a_help_lists_is_there(name, monkeypatch):
    """By the printed help, another way than that of the page."""
    program, *words = name.split()
    parts = re.split(r"^### ", page("commands.md"), flags=re.M)
    (section,) = (part for part in parts if part.splitlines()[0] == name)
    below = {"data": (["check"], ["fields"]), "bench": (["methods"], ["table"])}
    for more in below.get("".join(words), ([],)):
        monkeypatch.setattr(sys, "argv", [program, *more, "--help"])
        monkeypatch.syspath_prepend(str((ROOT / program).parent))
        help_ = help_of(words and [*words, *more], str(ROOT / program))
        listed = set(re.findall(r"^  (?:-\w.*?, )?(--\w+)", help_, re.M)) - {"--help"}
        assert listed or name == "cobalt doctor"
        assert [flag for flag in listed if f"`{flag}`" not in section] == []


def test_every_argument_of_the_serve_applications_has_a_meaning():
    from cobalt.engines.vllm_server import Settings as Engine
    from cobalt.evaluator.service import Settings as Evaluator

    found = rows(page("commands.md").partition("## Serve applications")[2])
    assert set(found) == {*Engine.model_fields, *Evaluator.model_fields} and all(found.values())


def test_files_that_configurations_and_code_name_exist():
    """`docs/...` in a configuration, a message or a docstring leads somewhere."""
    places = [*ROOT.glob("configs/*.yaml"), *ROOT.glob("verl/config/**/*.yaml"), *ROOT.glob("cobalt/**/*.py")]
    places += [*ROOT.glob("scripts/**/*.*sh"), *ROOT.glob("*.py"), *ROOT.glob("examples/**/*.*")]
    named = {(path, name) for path in places for name in re.findall(r"docs/[\w/]+\.md", path.read_text())}
    assert len(named) > 10
    assert [(str(path), name) for path, name in named if not (ROOT / name).exists()] == []
