"""Measured figures in place of assumptions: files of `benchmarks/evaluator.py` and of `bench inference`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.plan.assumptions import Assumptions
from cobalt.sandbox.limits import LEVELS

_NUMBER = (int, float)


def apply(assumptions: Assumptions, path: Path) -> Assumptions:
    """Assumptions with what a bench file measured.

    Raises InputError naming file and field for a file that is not what `--json FILE` of a bench writes.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    kind = _field(path, given, "bench", str)
    readers = {"evaluator": _evaluator, "inference": _inference}
    if kind not in readers:
        raise InputError(f"{path}: field 'bench' must be one of {', '.join(readers)}, got '{kind}'")
    name, value, said = readers[kind](path, given)
    return assumptions.replaced({name: value}, f"measured, {path}: {said}")


def _evaluator(path: Path, given: Any) -> tuple[str, float, str]:
    """CPU per trivial test is what the sandbox costs."""
    rates = {
        _field(path, row, "way", str, at): float(_field(path, row, "cpu_ms_per_test", _NUMBER, at))
        for at, row in _rows(path, given, "medians")
    }
    way = next((name for name in ("auto, in process", *LEVELS) if name in rates), None)
    if way is None:
        raise InputError(f"{path}: field 'medians' has no way of the evaluator ({', '.join(LEVELS)})")
    return "tests.overhead_ms", rates[way], f"way '{way}'"


def _inference(path: Path, given: Any) -> tuple[str, float, str]:
    """Tokens per second of the runner's own design, all samplers behind the URL taken as one replica."""
    engine, model = _field(path, given, "engine", str), _field(path, given, "model", str)
    if engine == "simulated":
        raise InputError(
            f"{path}: field 'engine' is 'simulated', which measures no model; use another --engine"
        )
    rates = []
    for at, row in _rows(path, given, "rounds"):
        if _field(path, row, "design", str, at) == "ours":
            tokens, wall_s = (float(_field(path, row, name, _NUMBER, at)) for name in ("tokens", "wall_s"))
            if wall_s <= 0 or tokens <= 0:
                raise InputError(f"{path}: field '{at}': tokens and wall_s must be above 0")
            rates.append(tokens / wall_s)
    if not rates:
        raise InputError(f"{path}: field 'rounds' has no round of the design 'ours'")
    return "sampling.measured_tokens_per_s", statistics.median(rates), f"{engine}, {model}"


def _rows(path: Path, given: Any, name: str) -> list[tuple[str, Any]]:
    return [(f"{name}.{place}", row) for place, row in enumerate(_field(path, given, name, list))]


def _field(path: Path, row: Any, name: str, kind: Any, at: str = "") -> Any:
    where = f"{at}.{name}" if at else name
    if not isinstance(row, dict):
        raise InputError(f"{path}: {f'field {at!r}' if at else 'the file'} must be a JSON object")
    if name not in row:
        raise InputError(
            f"{path}: field '{where}' is missing (benchmarks/evaluator.py --json FILE writes such files)"
        )
    if not isinstance(row[name], kind) or isinstance(row[name], bool):
        raise InputError(f"{path}: field '{where}' has the wrong type ({type(row[name]).__name__})")
    return row[name]
