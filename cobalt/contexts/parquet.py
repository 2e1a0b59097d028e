"""Contexts or tasks to the trainer's Parquet files (`preproc/verl_preproc_multi_turn.py`,
`..._single_turn.py`).

``train.parquet`` and ``test.parquet`` have the columns that verl reads (`cobalt.schema.ParquetRow`) beside
those of the input (arXiv 2602.03806, released data scripts).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int, tell
from cobalt.contexts.tokens import PromptCounter, load_tokenizer
from cobalt.contexts.verl_rows import Kind, VerlRows
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing
from cobalt.manifest import write_manifest
from cobalt.prompts import Prompts, load
from cobalt.rejects import Rejects, bad_row_flag, checked, rejects_path
from cobalt.rows import INPUT_HELP, Row, Rows, as_rows

FILES = {"train": "train.parquet", "test": "test.parquet"}  # by split, as the trainer's settings name them

Given = Rows | StrPath | Sequence[Row]


@dataclass
class SplitCounts:
    """Rows of one split: read, left out as bad or too long, written; tokens of the longest prompt."""

    read: int = 0
    bad: int = 0
    overlong: int = 0
    written: int = 0
    longest_prompt: int = 0


@dataclass
class Summary:
    """What was written, by split, and what had to be decided about types."""

    files: dict[str, str] = field(default_factory=dict)
    splits: dict[str, SplitCounts] = field(default_factory=lambda: {split: SplitCounts() for split in FILES})
    json_columns: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report for a terminal."""
        lines = []
        for split, counts in self.splits.items():
            file = self.files[split]
            line = f"{file}: {counts.written} rows"
            if counts.overlong:
                line += f", {counts.overlong} prompts over the limit left out"
            if counts.bad:
                line += f", {counts.bad} bad rows left out (see {rejects_path(file)})"
            lines.append(line)
        return lines


def build_parquet(
    train: Given,
    val: Given,
    local_dir: StrPath,
    *,
    kind: Kind = "multi_turn",
    prompts: Prompts | None = None,
    max_prompt_length: int | None = None,
    model_name: str | None = None,
    tokenizer: Any = None,
    drop_extra_columns: bool = False,
    on_bad_row: str = "fail",
) -> Summary:
    """Replace ``train.parquet`` and ``test.parquet`` in ``local_dir``, each atomically and after all checks.

    ``train`` and ``val`` are files or rows: contexts (`cobalt.schema.ContextRow`) if ``kind`` is
    ``multi_turn``, tasks with ``instruction`` if it is ``single_turn`` (whose prompts open with the system
    message of ``prompts``). Prompts of more than ``max_prompt_length`` tokens of the model's tokenizer
    (generation header included) are left out and counted. ``drop_extra_columns``: write verl's columns only,
    and no copy of the prompt inside ``extra_info``. Ids of both splits have one type in ``extra_info.index``:
    numbers if all are, else texts.

    Raises InputError for an unreadable file, a malformed row (``file:line``, field), no rows, no row within
    the limit, or a folder that cannot be written. Nothing has been changed then.
    """
    if max_prompt_length is not None and tokenizer is None and model_name is None:
        raise InputError("--max_prompt_length needs --model_name, whose tokenizer measures the prompts")
    if max_prompt_length is None and model_name is not None:
        raise InputError("--model_name measures prompts for --max_prompt_length: give both or neither")
    folder, summary = Path(local_dir), Summary()
    counter = None
    if max_prompt_length is not None:
        counter = PromptCounter(load_tokenizer(model_name or "") if tokenizer is None else tokenizer)
    shape = VerlRows(kind, prompts or load("default"), drop_extra_columns)
    sources = {"train": as_rows(train, "the train split"), "test": as_rows(val, "the test split")}
    rejects = {split: Rejects(folder / name, on_bad_row) for split, name in FILES.items()}
    kept = {
        split: _examine(
            source, split, rejects[split], shape, counter, max_prompt_length, summary.splits[split]
        )
        for split, source in sources.items()
    }
    summary.json_columns = sorted(shape.json_columns)
    if shape.ids_differ:
        summary.warnings.append("some ids are numbers and some are texts: all are stored as texts")
    if summary.json_columns:
        summary.warnings.append(f"stored as JSON text: {', '.join(summary.json_columns)}")
    with ExitStack() as stack:
        targets = {split: stack.enter_context(replacing(folder / name)) for split, name in FILES.items()}
        for split, source in sources.items():
            good = (row for _, row in checked(source, rejects[split], lambda row, where: row))
            rows = (row for row, keep in zip(good, kept[split], strict=True) if keep)
            summary.splits[split].written = shape.write(targets[split], rows, split)
            summary.files[split] = str(folder / FILES[split])
    for each in rejects.values():
        each.close()
    _write_manifests(folder, sources, shape, summary, model_name, max_prompt_length, on_bad_row)
    return summary


def _examine(
    source: Rows,
    split: str,
    rejects: Rejects,
    shape: VerlRows,
    counter: PromptCounter | None,
    limit: int | None,
    counts: SplitCounts,
) -> list[bool]:
    """Check every row; of each good one, whether its prompt is within the limit."""

    def measured(row: Row, where: str) -> tuple[Row, int]:
        shape.check(row, where)
        return row, 0 if counter is None else counter(shape.prompt(row), where)

    kept: list[bool] = []
    for _, (row, tokens) in checked(source, rejects, measured):
        counts.read += 1
        counts.longest_prompt = max(counts.longest_prompt, tokens)
        kept.append(limit is None or tokens <= limit)
        counts.overlong += not kept[-1]
        if kept[-1]:
            shape.observe(split, row)
    counts.bad = len(rejects)
    if not counts.read:
        raise InputError(f"{source.name} holds no rows{' that can be used' if counts.bad else ''}")
    if counts.overlong == counts.read:
        raise InputError(f"{source.name}: every prompt has more than {limit} tokens (--max_prompt_length)")
    return kept


def _write_manifests(
    folder: Path,
    sources: dict[str, Rows],
    shape: VerlRows,
    summary: Summary,
    model_name: str | None,
    max_prompt_length: int | None,
    on_bad_row: str,
) -> None:
    settings = {
        "stage": "parquet",
        "kind": shape.kind,
        "system_prompt": shape.prompts.sha256 if shape.kind == "single_turn" else None,
        "model_name": model_name,
        "max_prompt_length": max_prompt_length,
        "drop_extra_columns": shape.drop,
        "on_bad_row": on_bad_row,
    }
    inputs = {split: source for split, source in sources.items() if source.path is not None}
    for split, name in FILES.items():
        write_manifest(
            folder / name,
            settings=settings | {"split": split},
            inputs=inputs,
            counts=asdict(summary.splits[split]),
            extra={"json_columns": summary.json_columns, "warnings": summary.warnings},
        )


def main_multi_turn(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/verl_preproc_multi_turn.py``; returns the exit code."""
    return _main("multi_turn", argv)


def main_single_turn(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/verl_preproc_single_turn.py``; returns the exit code."""
    return _main("single_turn", argv)


def _default_file(split: str) -> str:
    """The published default, or where the published filter of TACO leaves its files."""
    name = f"data/taco_verified_filtered_{split}.jsonl"
    filtered = f"verl/{name}"
    return filtered if os.path.exists(filtered) and not os.path.exists(name) else name


def _main(kind: Kind, argv: list[str] | None) -> int:
    what = "contexts" if kind == "multi_turn" else "tasks"
    flags = parser(f"Turn {what} into the Parquet files that verl trains on.")
    flags.add_argument("--local_dir", required=True, help="folder for train.parquet and test.parquet")
    for name, split in (("train", "train"), ("val", "dev")):
        flags.add_argument(f"--{name}_data_file", default=_default_file(split), help=f"{what}: {INPUT_HELP}")
    flags.add_argument("--model_name", help="whose tokenizer measures prompts, for --max_prompt_length")
    flags.add_argument(
        "--max_prompt_length", type=positive_int, help="leave out, and count, prompts of more tokens"
    )
    flags.add_argument(
        "--drop_extra_columns", action="store_true", help="write verl's columns only: smaller files"
    )
    bad_row_flag(flags)
    if kind == "single_turn":
        flags.add_argument(
            "--prompts", default="default", metavar="default|tiny|FILE", help="whose system message to use"
        )
    args = flags.parse_args(argv)
    summary = build_parquet(
        args.train_data_file, args.val_data_file, args.local_dir, kind=kind,
        prompts=load(args.prompts) if kind == "single_turn" else None,
        max_prompt_length=args.max_prompt_length, model_name=args.model_name,
        drop_extra_columns=args.drop_extra_columns, on_bad_row=args.on_bad_row,
    )  # fmt: skip
    tell(summary.lines(), summary.warnings)
    return 0
