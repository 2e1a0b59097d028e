"""Measured figures in place of assumptions: the files that the benches write with `--json FILE`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from cobalt.errors import InputError
from cobalt.plan.assumptions import Assumptions
from cobalt.sandbox.limits import LEVELS


class _Way(BaseModel):
    way: str
    cpu_ms_per_test: float = Field(gt=0)


class _Evaluator(BaseModel):
    bench: Literal["evaluator"]
    medians: list[_Way]

    def measured(self) -> tuple[str, float, str]:
        """CPU per trivial test is what the sandbox costs."""
        rates = {each.way: each.cpu_ms_per_test for each in self.medians}
        way = next((name for name in ("auto, in process", *LEVELS) if name in rates), None)
        if way is None:
            raise InputError(f"field 'medians' has no way of the evaluator ({', '.join(LEVELS)})")
        return "tests.overhead_ms", rates[way], f"way '{way}'"


class _Round(BaseModel):
    design: str
    tokens: float = Field(gt=0)
    wall_s: float = Field(gt=0)


class _Inference(BaseModel):
    bench: Literal["inference"]
    engine: str
    model: str
    rounds: list[_Round]

    def measured(self) -> tuple[str, float, str]:
        """Tokens per second of the runner's own design; all that answers behind a URL is one replica."""
        if self.engine == "simulated":
            raise InputError("field 'engine' is 'simulated', which measures no model; use another --engine")
        rates = [each.tokens / each.wall_s for each in self.rounds if each.design == "ours"]
        if not rates:
            raise InputError("field 'rounds' has no round of the design 'ours'")
        said = f"{self.engine}, {self.model}"
        return "sampling.measured_tokens_per_s", statistics.median(rates), said


_FILE: TypeAdapter[_Evaluator | _Inference] = TypeAdapter(
    Annotated[_Evaluator | _Inference, Field(discriminator="bench")]
)


def apply(assumptions: Assumptions, path: Path) -> Assumptions:
    """Assumptions with what a bench file measured.

    Raises InputError naming file and field for a file that is not what ``--json FILE`` of a bench writes.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        name, value, said = _FILE.validate_python(given).measured()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"][1:])) or "bench"
        raise InputError(f"{path}: field '{field}': {first['msg']}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return assumptions.with_value(name, value, f"measured, {path}: {said}")
