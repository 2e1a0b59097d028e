"""What each file of the pipeline holds, who makes and reads it, and whether a row keeps to it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin

from typing_extensions import TypedDict, is_typeddict

from cobalt import schema
from cobalt.schema import Doc


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    `marks`: fields that only this kind has (the last kind of KINDS whose marks a row has is it); "a|b"
    is either. `required`: fields without which no door can use it (USES has what a certain one needs);
    `made_by`, `read_by`: scripts; `unique`: field whose values differ.
    """

    name: str
    row: type
    marks: tuple[str, ...]
    required: tuple[str, ...]
    made_by: str
    read_by: str
    unique: str | None = None


_PARQUET_DOORS = "preproc/verl_preproc_multi_turn.py, preproc/verl_preproc_single_turn.py"
_CODENET = "preproc/preproc_codenet.py, cobalt stored_groups"
_RUNNERS = "run_single_turn_vllm.py, run_single_turn_litellm.py"
_MULTI = "run_multi_turn_vllm.py, run_multi_turn_litellm.py"

# The most specific last.
KINDS = (
    Kind("samples", schema.SampleRow, ("task_id|question_id", "solution|completion|code_list"), (),
          "cobalt samples, yours (EvalPlus, BigCodeBench, LiveCodeBench)", "eval_multi_turn.py --tasks"),
    Kind("tasks", schema.TaskRow, ("test_cases|public_test_cases|hidden_test_cases",), ("id",),
          "preproc/preproc_taco.py, preproc/preproc_lcb_test6.py, cobalt run, yours",
          f"{_RUNNERS}, preproc/run_perturbation.py, preproc/verl_preproc_single_turn.py", "id"),
    Kind("TACO problems", schema.TacoSource, ("input_output",),
          ("id", "question", "difficulty", "solutions", "input_output"), "likaixin/TACO-verified",
          "preproc/preproc_taco.py", "id"),
    Kind("LiveCodeBench problems", schema.LcbSource, ("private_test_cases",),
          ("question_id", "question_content", "contest_date", "difficulty", "public_test_cases",
           "private_test_cases"), "livecodebench/code_generation_lite", "preproc/preproc_lcb_test6.py",
          "question_id"),
    Kind("perturbed tasks", schema.PerturbedRow, ("modified_test_cases|perturbed_public_test_cases",),
          ("id",), "preproc/run_perturbation.py",
          f"{_RUNNERS}, {_MULTI}, extract_turn_level_errors.py", "id"),
    Kind("single-turn completions", schema.SingleTurnRow, ("responses",),
          ("id", "responses"), _RUNNERS, f"{_MULTI}, eval_multi_turn.py, cobalt stored_groups", "id"),
    Kind("evaluated completions", schema.SingleEvalRow, ("responses", "all_pass_rates"),
          ("id", "responses", "all_pass_rates"), "eval_multi_turn.py", "cobalt compare, cobalt report", "id"),
    Kind("trajectories", schema.TrajectoryRow, ("conversations",),
          ("id", "conversations"), _MULTI, "eval_multi_turn.py", "id"),
    Kind("evaluated trajectories", schema.EvalRow, ("all_pass_rates", "conversations"),
          ("id", "conversations", "public_pass_rates", "all_pass_rates"), "eval_multi_turn.py",
          "preproc/process_multi_turn_taco.py, extract_turn_level_errors.py, cobalt compare, cobalt report",
          "id"),
    Kind("contexts", schema.ContextRow, ("conversation", "prev_best_pass_rate"),
          ("example_id", "conversation", "test_cases", "prev_best_pass_rate"),
          "preproc/process_multi_turn_taco.py", "preproc/verl_preproc_multi_turn.py"),
    Kind("training examples", schema.ParquetRow, ("data_source", "reward_model"),
          ("data_source", "prompt", "ability", "reward_model", "extra_info"), _PARQUET_DOORS,
          "cobalt train"),
    Kind("stored groups", schema.GroupRow, ("completions", "prompt"),
          ("prompt", "completions", "extra_info"), _CODENET, "cobalt train --recipe offline_rl"),
    Kind("turn errors", schema.TurnErrorRow, ("previous_code", "current_code"),
          ("id", "question", "previous_code", "feedback", "current_code", "patch"),
          "extract_turn_level_errors.py", "run_llm_judge.py"),
    Kind("judged turn errors", schema.JudgedRow, ("classification",), ("classification",),
          "run_llm_judge.py", "cobalt report"),
    Kind("reference verdicts", schema.ReferenceRow, ("verified", "tried"), ("id", "verified", "tried"),
          "preproc/preproc_taco.py (OUTPUT.verdicts.jsonl)", "the next run of the same command"),
    Kind("overlaps", schema.OverlapRow, ("problem", "shared"), ("id", "problem", "shared"),
          "preproc/preproc_taco.py --decontaminate (OUTPUT.overlap.jsonl)", "you"),
    Kind("rejected rows", schema.RejectRow, ("where", "error"), ("where", "error"),
          "any data door with --on_bad_row skip (OUTPUT.rejects.jsonl)", "you"),
    Kind("failed rows", schema.FailureRow, ("error", "attempts"), ("error", "attempts"),
          "any door that runs programs or models (OUTPUT.failures.jsonl)",
          "the next run of the same command"),
)  # fmt: skip


# What a row of a kind can be used for, and the fields that it needs for this: "a|b" is either.
_RUN: dict[str, tuple[str, ...]] = {
    "run_single_turn_*.py": ("instruction", "test_cases"),
    "run_multi_turn_*.py --first_turn": ("instruction", "public_test_cases"),
    "eval_multi_turn.py, after them": ("hidden_test_cases",),
}
USES: dict[str, dict[str, tuple[str, ...]]] = {
    "tasks": _RUN | {
        "preproc/run_perturbation.py": ("public_test_cases",),
        "preproc/verl_preproc_single_turn.py": ("instruction", "test_cases"),
        "cobalt eval, cobalt run (tasks.train_file, tasks.dev_file)": (
            "instruction|question", "test_cases|public_test_cases", "test_cases|hidden_test_cases",
        ),
    },
    "perturbed tasks": _RUN | {
        "extract_turn_level_errors.py --data_file": ("modified_test_cases",),
        "cobalt run (perturb.source)": (
            "instruction|question", "hidden_test_cases", "modified_test_cases",
            "public_test_cases|perturbed_public_test_cases",
        ),
    },
    "single-turn completions": {
        "run_multi_turn_*.py": ("instruction", "public_test_cases"),
        "eval_multi_turn.py": ("hidden_test_cases",),
        "preproc/process_multi_turn_taco.py, after them": ("test_cases", "difficulty"),
        "cobalt stored_groups": ("instruction", "exec_results"),
    },
    "trajectories": {
        "eval_multi_turn.py": ("hidden_test_cases",),
        "preproc/process_multi_turn_taco.py, after it": ("public_pass_rates", "test_cases", "difficulty"),
    },
    "evaluated trajectories": {
        "preproc/process_multi_turn_taco.py": ("public_pass_rates", "test_cases", "difficulty"),
        "cobalt run (collect.trajectories)": (
            "public_pass_rates", "test_cases|public_test_cases", "test_cases|hidden_test_cases",
        ),
        "extract_turn_level_errors.py": ("public_pass_rates", "public_exec_results"),
        "cobalt compare, cobalt report": (),
    },
}  # fmt: skip


def kind_of(row: Mapping[str, Any]) -> Kind | None:
    """The kind of file that a row belongs to, by its fields."""
    found = [kind for kind in KINDS if all(any(e in row for e in mark.split("|")) for mark in kind.marks)]
    return found[-1] if found else None


def lacking(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Of the fields (or "a|b" of which one would do) those that a row does not have."""
    return [name for name in names if all(row.get(each) is None for each in name.split("|"))]


@cache
def fields_of(row_type: type) -> dict[str, tuple[Any, Doc]]:
    """Type and meaning of every field of a row type, in order."""
    hints = typing.get_type_hints(row_type, include_extras=True)
    return {name: (get_args(hint)[0], get_args(hint)[1]) for name, hint in hints.items()}


def type_problem(row: Mapping[str, Any], kind: Kind) -> str | None:
    """What is wrong with the fields of a row: a missing one, a wrong type. Unknown fields are fine."""
    from pydantic import ValidationError

    for name in kind.required:
        if name not in row:
            return f"field '{name}' is missing"
    known = {name: value for name, value in row.items() if value is not None or name in kind.required}
    try:
        _types(kind.row).validate_python(known, strict=True)
    except ValidationError as errors:
        found = errors.errors(include_url=False)[0]
        name, deeper = str(found["loc"][0]), found["loc"][1:]
        hint = _json(*fields_of(kind.row)[name])
        if _alternatives(hint):  # which of them was meant nobody knows
            return f"field '{name}' must be {type_name(hint)}, got {row[name]!r:.60}"
        place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in deeper)
        return f"field '{name}'{place}: {found['msg']}, got {found['input']!r:.60}"
    return None


@cache
def _types(row_type: type) -> Any:
    """A pydantic adapter of a row type."""
    from pydantic import TypeAdapter

    hints = {name: _json(hint, doc) for name, (hint, doc) in fields_of(row_type).items()}
    return TypeAdapter(TypedDict("Fields", hints, total=False))  # type: ignore[operator]


def _json(hint: Any, doc: Doc) -> Any:
    """What may stand where JSON text may."""
    return str | dict[str, Any] | list[Any] if doc.json and hint is str else hint


def _alternatives(hint: Any) -> list[Any]:
    """The types of a union of several; none of another type, or of one that may be null."""
    found = [each for each in get_args(hint) if each is not types.NoneType]
    return found if get_origin(hint) in (Union, types.UnionType) and len(found) > 1 else []


_NAMES: dict[Any, str] = {
    str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "null",
    dict: "object", Any: "anything", schema.Message: "message", schema.ExecutionResult: "verdict",
}  # fmt: skip


def type_name(hint: Any) -> str:
    """A type in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(each) for each in args)
    if origin is list:
        return "list" if args[0] is Any else f"list of {type_name(args[0])}"
    return _NAMES[origin or hint]


def field_row(name: str, hint: Any, doc: Doc) -> str:
    """A field's row of a Markdown table: name, type and axes, meaning."""
    said = "J" if doc.json else type_name(hint)
    return f"| `{name}`{' +' if doc.ours else ''} | {said}{doc.axes and ', '}{doc.axes} | {doc.meaning} |"


def field_table() -> str:
    """The field tables of `docs/data.md`: one per kind of file, inherited fields not repeated."""
    parts = []
    for kind in KINDS:
        base: Any = next(iter(getattr(kind.row, "__orig_bases__", ())), None)
        inherited = fields_of(base) if is_typeddict(base) else {}
        rows = [
            field_row(name, hint, doc)
            for name, (hint, doc) in fields_of(kind.row).items()
            if name not in inherited
        ]
        whose = next((each.name for each in KINDS if inherited and each.row is base), None)
        above = f" All fields of {whose} pass through." if whose else ""
        needed = ", ".join(f"`{name}`" for name in kind.required) or "a key, and programs"
        parts.append(
            f"### {kind.name[0].upper()}{kind.name[1:]}\n\n"
            f"Made by {kind.made_by}; read by {kind.read_by}. Needed: {needed}.{above}\n\n"
            "| field | type, axes | meaning |\n|---|---|---|\n" + "\n".join(rows)
        )
    return "\n\n".join(parts) + "\n"
