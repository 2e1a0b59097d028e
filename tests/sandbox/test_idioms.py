"""Programs as people and models write them get the verdict that a plain interpreter would give them."""

import functools

import pytest
from idioms import INPUT, PROGRAMS, STDIN, VITAL
from idioms.outcome import Outcome, boxed, difference, plain

# Programs that are meant to deviate, each in a line below the reason. All must be seen to do so, else their
# lines are out of date.
_ALWAYS = {
    "exit and quit exist (a plain interpreter has them from `site`, which -S leaves out)": """
exits: exit builtin
exits: quit builtin
exits: exit builtin with a status
exits: quit builtin with text
""",
    "the frames that start it lie below the program's": """
reflection: stack
reflection: frames
reflection: depth of the stack
reflection: extract_stack
""",
    "an exception without arguments is made of `sys.exit(())` before it is looked at": """
exits: empty tuple
""",
    "the streams are known to the process that it is a copy of": """
stdout_closed: the last reference to stdout goes with one in a cycle
""",
    "no other program can be started": """
modules: subprocess tried
modules: os.system tried
modules: subprocess of Python tried
""",
    "the program leads a session of its own, and so cannot make another process group": """
deaths: os.killpg of the own group
""",
    "there is no file of the program": """
reflection: source read by its name
""",
}
_LANDLOCK = {
    "processes cannot be forked": """
signals: fork and wait
signals: fork and both end
signals: fork with text unflushed
signals: fork and handlers
signals: fork status
signals: fork in an exit handler
signals: fork with pipe
signals: multiprocessing pool
signals: multiprocessing Process
""",
    "of devices there are null, random, urandom and full": """
files: devices
files: is a directory
""",
    "/proc cannot be read": """
modules: open descriptors
""",
    "files cannot be made": """
endings_mixed: tempfile and del
files: written and read back
files: written and not closed
files: written and never flushed
files: input file and output file
files: appended
files: random access
files: list of the folder
files: walk
files: renamed and removed
files: TemporaryFile
files: NamedTemporaryFile
files: TemporaryDirectory at the end
files: gettempdir
files: pathlib
files: glob and shutil
files: json file
files: pickle file
files: sqlite3 file
files: shelve
files: zipfile
files: own module written and imported
files: chdir
files: symlink
files: read only file
files: logging to a file
files: file written in a handler
files: file with del
files: mmap of a file
""",
}


def _by_name(reasons: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names.split("\n") if name}


WANTED: dict[str, dict[str, str]] = {
    "namespaces": _by_name(_ALWAYS),
    "landlock": _by_name(_ALWAYS | _LANDLOCK),
}


@functools.cache
def _plain(name: str) -> Outcome:
    return plain(PROGRAMS[name], STDIN.get(name, INPUT))


def _check(box, name: str) -> None:
    differs = difference(_plain(name), boxed(box, PROGRAMS[name], STDIN.get(name, INPUT)))
    reason = WANTED[box.level].get(name)
    if reason is None:
        assert not differs, f"{differs}\n{PROGRAMS[name]}"
    else:
        assert differs, f"this is as in a plain interpreter now, no longer so that {reason}"


_ORDINARY = [name for name in PROGRAMS if name.partition(":")[0] not in VITAL.split()]
_SAMPLE = [name for name in PROGRAMS if name not in _ORDINARY] + _ORDINARY[::4]


@pytest.mark.parametrize("name", _SAMPLE)
def test_an_idiom_ends_as_in_a_plain_interpreter(box, name):
    _check(box, name)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in _SAMPLE])
def test_the_other_idioms_end_as_in_a_plain_interpreter(box, name):
    _check(box, name)


def test_every_deviation_that_is_wanted_names_an_idiom():
    for reasons in WANTED.values():
        assert not reasons.keys() - PROGRAMS.keys()
