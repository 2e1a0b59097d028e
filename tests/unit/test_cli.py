"""The `cobalt` command: every word leads to a module with a `main`, and listing them loads nothing heavy."""

import importlib
import subprocess
import sys

import pytest

from cobalt import __main__ as cli
from cobalt.errors import InputError


@pytest.mark.parametrize("words", cli.COMMANDS)
def test_every_command_is_a_module_with_a_main(words: str) -> None:
    assert callable(importlib.import_module(cli.COMMANDS[words][0]).main)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in cli.COMMANDS)


def test_an_unknown_command_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'cobalt doctor'"):
        cli.main(["docter"])


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from cobalt import __main__ as cli; cli.main(['--help']); "
        "print([name for name in ('torch', 'ray', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
