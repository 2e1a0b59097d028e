"""Programs in the ways in which people and models write them, by what is special about them.

Each module holds one text, in which a line `#: name` begins a program; `PROGRAMS` has all of them by name.
Programs read INPUT, or what STDIN has for them.
"""

from importlib import import_module

INPUT = "5\n3 1 4 1 5\nhello wörld\n\n7 8 9\n".encode()

# Those that decide how output gets out and how a program ends: always run in full.
VITAL = """stdout_replaced stdout_classes stdout_closed fast_io own_buffers raw_writes destructors references
handlers hooks signals threads pools exits deaths endings_mixed"""
EVERYDAY = """errors errors_usual stdin_read stdin_descriptors encodings coroutines algorithms contests
library modules language reflection files inputs"""


def parse(text: str) -> dict[str, str]:
    """Programs by name."""
    programs: dict[str, str] = {}
    for part in text.split("\n#: ")[1:]:
        name, _, code = part.partition("\n")
        assert name not in programs, f"two programs are named {name!r}"
        programs[name] = code.strip("\n") + "\n"
    return programs


def collect(categories: str) -> dict[str, str]:
    """Programs of these modules by `category: name`."""
    found = {}
    for category in categories.split():
        for name, code in parse(import_module(f"idioms.{category}").TEXT).items():
            found[f"{category}: {name}"] = code
    return found


PROGRAMS = collect(f"{VITAL} {EVERYDAY}")
STDIN: dict[str, bytes] = {
    f"inputs: {name}": data for name, data in import_module("idioms.inputs").STDIN.items()
}
