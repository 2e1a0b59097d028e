"""Programs as people and models write them get the verdict that a plain interpreter would give them."""

import functools

import pytest
from idioms import INPUT, PROGRAMS, STDIN
from idioms.outcome import Outcome, boxed, difference, plain

# Programs that are meant to deviate, each in a line below the reason. All must be seen to do so, else their
# lines are out of date.
_ALWAYS = {
    "exit and quit exist (a plain interpreter has them from `site`, which -S leaves out)": """
exits: exit builtin with a status
exits: quit builtin with text
""",
    "the frames that start it lie below the program's": """
fact: import inspect; print(len(inspect.stack()))
""",
    "an exception without arguments is made of `sys.exit(())` before it is looked at": """
exit code: ()
""",
    "the streams are known to the process that it is a copy of": """
closed: the last reference to stdout goes with one in a cycle
""",
    "no other program can be started": """
fact: import subprocess; print(subprocess.run(["true"]).returncode)
fact: import os; print(os.system("true"))
""",
    "the program leads a session of its own, and so cannot make another process group": """
signals: os.killpg of the own group
""",
    "there is no file of the program": """
fact: import os; print(len(open(__file__).read()))
""",
}
_LANDLOCK = {
    "processes cannot be forked": """
signals: fork with text unflushed
signals: fork in an exit handler
signals: multiprocessing Process
""",
    "of devices there are null, random, urandom and full": """
world: devices
world: is a directory
""",
    "/proc cannot be read": """
fact: import os; print(sorted(map(int, os.listdir("/proc/self/fd")))[:3])
""",
    "files cannot be made": """
exits: tempfile and del
world: written and read back
world: written and never flushed
world: TemporaryDirectory at the end
world: own module written and imported
world: file with del
world: sqlite3 file
""",
}
# Categories of which stderr is compared too, and programs of them for which the interpreter has other words.
_SAYING = ("error", "errors", "exit code")
_OTHER_WORDS = """
errors: RecursionError after a raised limit
errors: SyntaxError of odd kinds
"""


def _by_name(reasons: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names.split("\n") if name}


WANTED: dict[str, dict[str, str]] = {
    "namespaces": _by_name(_ALWAYS),
    "landlock": _by_name(_ALWAYS | _LANDLOCK),
}


@functools.cache
def _plain(name: str) -> Outcome:
    return plain(PROGRAMS[name], STDIN.get(name, INPUT))


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_idiom_ends_as_in_a_plain_interpreter(box, name):
    said = name.partition(":")[0] in _SAYING and name not in _OTHER_WORDS.split("\n")
    differs = difference(_plain(name), boxed(box, PROGRAMS[name], STDIN.get(name, INPUT)), said=said)
    reason = WANTED[box.level].get(name)
    if reason is None:
        assert not differs, f"{differs}\n{PROGRAMS[name]}"
    else:
        assert differs, f"this is as in a plain interpreter now, no longer so that {reason}"


def test_every_deviation_that_is_wanted_names_an_idiom():
    for reasons in WANTED.values():
        assert not reasons.keys() - PROGRAMS.keys()
