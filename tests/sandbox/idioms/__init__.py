"""Programs in the ways in which people and models write them, by what is special about them.

Each module holds one text, in which a line `#: name` begins a program; those of `tables` are made of rows.
`PROGRAMS` has all of them by `category: name`. They read INPUT, or what STDIN has for them.
"""

from importlib import import_module

from idioms import tables

INPUT = "5\n3 1 4 1 5\nhello wörld\n\n7 8 9\n".encode()
STDIN = {f"input: {name}": data for name, (data, _) in tables.INPUTS.items()}
CATEGORIES = "stdout closed buffers destructors handlers signals exits threads errors stdin world"


def parse(text: str) -> dict[str, str]:
    """Programs by name."""
    programs: dict[str, str] = {}
    for part in text.split("\n#: ")[1:]:
        name, _, code = part.partition("\n")
        assert name not in programs, f"two programs are named {name!r}"
        programs[name] = code.strip("\n") + "\n"
    return programs


PROGRAMS = tables.programs() | {
    f"{category}: {name}": code
    for category in CATEGORIES.split()
    for name, code in parse(import_module(f"idioms.{category}").TEXT).items()
}
