"""What each file of the pipeline holds, who makes and reads it, and whether a row keeps to it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from cobalt import schema
from cobalt.schema import Doc


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    `marks`: fields that only this kind has (the first kind of KINDS whose marks a row has is it); "a|b"
    is either. `required`: fields without which no door can use it (USES has what a certain one needs);
    `made_by`, `read_by`: scripts.
    """

    name: str
    row: type
    marks: tuple[str, ...]
    required: tuple[str, ...]
    made_by: str
    read_by: str


_PARQUET_DOORS = "preproc/verl_preproc_multi_turn.py, preproc/verl_preproc_single_turn.py"
_CODENET = "preproc/preproc_codenet.py, cobalt stored_groups"
_RUNNERS = "run_single_turn_vllm.py, run_single_turn_litellm.py"
_MULTI = "run_multi_turn_vllm.py, run_multi_turn_litellm.py"

# The most specific first.
KINDS = (
    Kind("training examples", schema.ParquetRow, ("data_source", "reward_model"),
          ("data_source", "prompt", "ability", "reward_model", "extra_info"), _PARQUET_DOORS,
          "cobalt train"),
    Kind("stored groups", schema.GroupRow, ("completions", "prompt"),
          ("prompt", "completions", "extra_info"), _CODENET, "cobalt train --recipe offline_rl"),
    Kind("judged turn errors", schema.JudgedRow, ("classification",), ("classification",),
          "run_llm_judge.py", "cobalt report"),
    Kind("turn errors", schema.TurnErrorRow, ("previous_code", "current_code"),
          ("id", "question", "previous_code", "feedback", "current_code", "patch"),
          "extract_turn_level_errors.py", "run_llm_judge.py"),
    Kind("evaluated trajectories", schema.EvalRow, ("all_pass_rates",),
          ("id", "conversations", "public_pass_rates", "all_pass_rates"), "eval_multi_turn.py",
          "preproc/process_multi_turn_taco.py, extract_turn_level_errors.py, cobalt compare, cobalt report"),
    Kind("trajectories", schema.TrajectoryRow, ("conversations",),
          ("id", "conversations"), _MULTI, "eval_multi_turn.py"),
    Kind("single-turn completions", schema.SingleTurnRow, ("responses",),
          ("id", "responses"), _RUNNERS, f"{_MULTI}, cobalt stored_groups"),
    Kind("contexts", schema.ContextRow, ("conversation", "prev_best_pass_rate"),
          ("example_id", "conversation", "test_cases", "prev_best_pass_rate"),
          "preproc/process_multi_turn_taco.py", "preproc/verl_preproc_multi_turn.py"),
    Kind("perturbed tasks", schema.PerturbedRow, ("modified_test_cases|perturbed_public_test_cases",),
          ("id",), "preproc/run_perturbation.py",
          f"{_RUNNERS}, {_MULTI}, extract_turn_level_errors.py"),
    Kind("LiveCodeBench problems", schema.LcbSource, ("private_test_cases",),
          ("question_id", "question_content", "contest_date", "difficulty", "public_test_cases",
           "private_test_cases"), "livecodebench/code_generation_lite", "preproc/preproc_lcb_test6.py"),
    Kind("TACO problems", schema.TacoSource, ("input_output",),
          ("id", "question", "difficulty", "solutions", "input_output"), "likaixin/TACO-verified",
          "preproc/preproc_taco.py"),
    Kind("tasks", schema.TaskRow, ("test_cases|public_test_cases|hidden_test_cases",), ("id",),
          "preproc/preproc_taco.py, preproc/preproc_lcb_test6.py, cobalt run, yours",
          f"{_RUNNERS}, preproc/run_perturbation.py, preproc/verl_preproc_single_turn.py"),
    Kind("rejected rows", schema.RejectRow, ("where", "error"), ("where", "error"),
          "any data door with --on_bad_row skip (OUTPUT.rejects.jsonl)", "you"),
    Kind("failed rows", schema.FailureRow, ("error", "attempts"), ("error", "attempts"),
          "any door that runs programs or models (OUTPUT.failures.jsonl)",
          "the next run of the same command"),
    Kind("reference verdicts", schema.ReferenceRow, ("verified", "tried"), ("id", "verified", "tried"),
          "preproc/preproc_taco.py (OUTPUT.verdicts.jsonl)", "the next run of the same command"),
    Kind("overlaps", schema.OverlapRow, ("problem", "shared"), ("id", "problem", "shared"),
          "preproc/preproc_taco.py --decontaminate (OUTPUT.overlap.jsonl)", "you"),
)  # fmt: skip


# What a row of a kind can be used for, and the fields that it needs for this: "a|b" is either.
USES: dict[str, dict[str, tuple[str, ...]]] = {
    "tasks": {
        "run_single_turn_*.py": ("instruction", "test_cases"),
        "run_multi_turn_*.py --first_turn": ("instruction", "public_test_cases"),
        "eval_multi_turn.py, after them": ("hidden_test_cases",),
        "preproc/run_perturbation.py": ("public_test_cases",),
        "preproc/verl_preproc_single_turn.py": ("instruction", "test_cases"),
        "cobalt run (tasks.train_file, tasks.dev_file)": (
            "instruction|question", "test_cases|public_test_cases", "test_cases|hidden_test_cases",
        ),
    },
    "perturbed tasks": {
        "run_single_turn_*.py": ("instruction", "test_cases"),
        "run_multi_turn_*.py --first_turn": ("instruction", "public_test_cases"),
        "eval_multi_turn.py, after them": ("hidden_test_cases",),
        "extract_turn_level_errors.py --data_file": ("modified_test_cases",),
        "cobalt run (perturb.source)": (
            "instruction|question", "hidden_test_cases|test_cases",
            "public_test_cases|perturbed_public_test_cases",
        ),
    },
    "single-turn completions": {
        "run_multi_turn_*.py": ("instruction", "public_test_cases"),
        "eval_multi_turn.py, after them": ("hidden_test_cases",),
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
    "contexts": {"preproc/verl_preproc_multi_turn.py": ("conversation", "test_cases")},
}  # fmt: skip


def kind_of(row: Mapping[str, Any]) -> Kind | None:
    """The kind of file that a row belongs to, by its fields."""
    marked = (all(any(each in row for each in mark.split("|")) for mark in kind.marks) for kind in KINDS)
    return next((kind for kind, found in zip(KINDS, marked, strict=True) if found), None)


def lacking(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Of the fields (or "a|b" of which one would do) those that a row does not have."""
    return [name for name in names if all(row.get(each) is None for each in name.split("|"))]


@cache
def fields_of(row_type: type) -> dict[str, tuple[Any, Doc]]:
    """Type and meaning of every field of a row type, in order."""
    found = {}
    for name, hint in typing.get_type_hints(row_type, include_extras=True).items():
        if get_origin(hint) is typing.NotRequired:
            (hint,) = get_args(hint)
        doc = Doc("")
        if get_origin(hint) is Annotated:
            hint, doc = get_args(hint)
        found[name] = hint, doc
    return found


def type_problem(row: Mapping[str, Any], kind: Kind) -> str | None:
    """What is wrong with the fields of a row: a missing one, a wrong type. Unknown fields are fine."""
    for name in kind.required:
        if name not in row:
            return f"field '{name}' is missing"
    for name, (hint, doc) in fields_of(kind.row).items():
        if name in row and not (row[name] is None and name not in kind.required):
            hint = str | dict[str, Any] | list[Any] if doc.json and hint is str else hint
            if problem := _problem(row[name], hint, f"field '{name}'"):
                return problem
    return None


def _problem(value: Any, hint: Any, place: str) -> str | None:
    """The first place in a value where it is not what the type says."""
    origin, args = get_origin(hint), get_args(hint)
    inner: Iterator[str | None] = iter(())
    if origin in (Union, types.UnionType):
        tried = [_problem(value, each, place) for each in args]
        deeper = (problem for problem in tried if problem and not problem.startswith(f"{place} must"))
        return next(deeper, _wrong(value, hint, place)) if all(tried) else None
    if origin is list:
        if not isinstance(value, list):
            return f"{place} must be a list, got {_shown(value)}"
        inner = (_problem(item, args[0], f"{place}[{index}]") for index, item in enumerate(value))
    elif origin is dict or typing.is_typeddict(hint):
        if not isinstance(value, dict):
            return f"{place} must be an object, got {_shown(value)}"
        if origin is not dict:
            for name in sorted(hint.__required_keys__ - value.keys()):
                return f"{place}: '{name}' is missing"
            known = fields_of(hint).items()
            there = ((name, each) for name, (each, _) in known if value.get(name) is not None)
            inner = (_problem(value[name], each, f"{place}.{name}") for name, each in there)
    elif hint is not Any and (not isinstance(value, _ACCEPTED.get(hint, hint)) or _is_bool(value, hint)):
        return _wrong(value, hint, place)
    return next(filter(None, inner), None)


_ACCEPTED: dict[Any, Any] = {float: int | float, None: type(None)}
_NAMES: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    type(None): "null",
}
_TYPED = {"Message": "message", "ExecutionResult": "verdict", "TestResult": "test result"}


def _wrong(value: Any, hint: Any, place: str) -> str:
    return f"{place} must be {type_name(hint)}, got {_shown(value)}"


def _is_bool(value: Any, hint: Any) -> bool:
    """True and false are no numbers."""
    return isinstance(value, bool) and hint in (int, float)


def type_name(hint: Any) -> str:
    """A type in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(each) for each in args)
    if origin is list:
        return "list" if args[0] is Any else f"list of {type_name(args[0])}"
    if origin is dict:
        return "object"
    return "anything" if hint is Any else _NAMES.get(hint) or _TYPED[hint.__name__]


def _shown(value: Any) -> str:
    return {dict: "an object", list: "a list"}.get(type(value)) or repr(value)[:60]


def field_table() -> str:
    """The field tables of `docs/data.md`: one per kind of file, inherited fields not repeated."""
    parts = []
    for kind in sorted(KINDS, key=lambda each: ORDER.index(each.name)):
        known = fields_of(kind.row)
        base: Any = next(iter(getattr(kind.row, "__orig_bases__", ())), None)
        inherited = fields_of(base) if typing.is_typeddict(base) else {}
        rows = [
            f"| `{name}`{' +' if doc.ours else ''} | {_type_cell(hint, doc)} | {doc.meaning} |"
            for name, (hint, doc) in known.items()
            if name not in inherited
        ]
        above = f" All fields of {_kind_of(base)} pass through." if inherited else ""
        needed = ", ".join(f"`{name}`" for name in kind.required)
        parts.append(
            f"### {kind.name[0].upper()}{kind.name[1:]}\n\n"
            f"Made by {kind.made_by}; read by {kind.read_by}. Needed: {needed}.{above}\n\n"
            "| field | type, axes | meaning |\n|---|---|---|\n" + "\n".join(rows)
        )
    return "\n\n".join(parts) + "\n"


ORDER = (
    "TACO problems", "LiveCodeBench problems", "tasks", "perturbed tasks", "single-turn completions",
    "trajectories", "evaluated trajectories", "contexts", "training examples", "stored groups", "turn errors",
    "judged turn errors", "reference verdicts", "overlaps", "rejected rows", "failed rows",
)  # fmt: skip


def _kind_of(row_type: Any) -> str:
    return next(kind.name for kind in KINDS if kind.row is row_type)


def _type_cell(hint: Any, doc: Doc) -> str:
    name = "J" if doc.json else type_name(hint)
    return f"{name}, {doc.axes}" if doc.axes else name
