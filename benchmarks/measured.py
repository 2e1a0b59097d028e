"""What the benches share: the file that `cobalt plan --bench` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cobalt.cli import Parser
from cobalt.files import atomic_write


def output_flag(flags: Parser) -> None:
    """``--json FILE``."""
    said = "write every round as JSON, which cobalt plan --bench reads"
    flags.add_argument("-o", "--output", "--json", metavar="FILE", help=said)


def write(path: str | None, bench: str, facts: Mapping[str, Any]) -> None:
    """Replace the file, if one was asked for."""
    if path:
        atomic_write(path, json.dumps({"bench": bench, **facts}, indent=2) + "\n")
