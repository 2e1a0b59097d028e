"""Flags and exit codes, as a user of a command line meets them, and the words of `cobalt`."""

import importlib
import subprocess
import sys
import textwrap

import pytest

from cobalt import __main__ as cobalt
from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import BadRequest, InfraError, InputError, SettingsChanged


def _parser():
    p = parser("A door.")
    p.add_argument("-i", "--input_file", required=True, help="where from")
    p.add_argument("--max_tokens", type=positive_int, default=8192, help="tokens per completion")
    p.add_argument("--top-p", type=float, default=0.95, help="nucleus")
    p.add_argument("--enable_thinking", action="store_true", help="cut thinking")
    p.add_argument("rest", nargs="*")
    return p


@pytest.mark.parametrize("name", [["--input-file=a-b_c"], ["--input_file", "a-b_c"], ["-i", "a-b_c"]])
def test_hyphens_and_underscores_are_the_same(name):
    args = _parser().parse_args(
        [*name, "--max-tokens", "7", "--top_p=0.5", "--enable-thinking", "--", "--max-tokens"]
    )
    assert (args.input_file, args.max_tokens, args.top_p, args.enable_thinking) == ("a-b_c", 7, 0.5, True)
    assert args.rest == ["--max-tokens"]  # after a double dash words are left alone


@pytest.mark.parametrize(
    "given", [["--input", "x"], ["-i", "x", "--max_tokens", "0"], ["-i", "x", "--max_tokens", "a"], []]
)
def test_wrong_flags_exit_with_2(given, capsys):
    with pytest.raises(SystemExit) as stop:
        _parser().parse_args(given)
    assert stop.value.code == 2 and "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcome", "code", "message"),
    [
        (None, 0, ""),
        (3, 3, ""),
        (InputError("no such file"), 2, "error: no such file"),
        (BadRequest("lists differ"), 2, "error: lists differ"),
        (SettingsChanged("top_p"), 2, "error: top_p"),
        (InfraError("engine died"), 1, "error: engine died"),
        (KeyboardInterrupt("12 rows kept"), 130, "interrupted: 12 rows kept"),
    ],
)
def test_exit_codes(outcome, code, message, capsys):
    def main(argv):
        assert argv is None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with pytest.raises(SystemExit) as stop:
        run_main(main)
    assert stop.value.code == code
    assert capsys.readouterr().err.strip() == message


def test_a_bug_keeps_its_traceback_and_a_reader_that_goes_away_causes_none():
    with pytest.raises(ZeroDivisionError):
        run_main(lambda argv: 1 // 0)
    code = textwrap.dedent("""
        from cobalt.cli import run_main
        run_main(lambda argv: [print("x" * 100) for _ in range(10000)] and 0)
    """)
    shell = '"$0" -c "$1" | head -1; exit ${PIPESTATUS[0]}'
    done = subprocess.run(["bash", "-c", shell, sys.executable, code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_every_word_is_a_module_with_a_main_and_help_lists_it(capsys):
    assert cobalt.main(["--help"]) == 0
    said = capsys.readouterr().out
    for word, (module, _) in cobalt.COMMANDS.items():
        assert word in said and callable(importlib.import_module(module).main)


def test_help_loads_no_heavy_library():
    code = (
        "import sys; from cobalt import __main__ as cli; cli.main(['--help']); "
        "print([name for name in ('torch', 'ray', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
