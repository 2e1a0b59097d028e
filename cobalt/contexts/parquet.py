"""Contexts or tasks to the trainer's Parquet files (`preproc/verl_preproc_multi_turn.py`,
`..._single_turn.py`): ``train.parquet`` and ``test.parquet``, with the rows of `cobalt.contexts.verl_rows`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int, tell
from cobalt.contexts.verl_rows import Kind, VerlRows
from cobalt.convert import Rejects, bad_row_flag, checked, rejects_path
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing
from cobalt.manifest import write_manifest
from cobalt.prompts import Prompts, load, prompts_flag
from cobalt.rows import INPUT_HELP, Row, Rows, as_rows
from cobalt.text import PromptCounter, load_tokenizer

FILES = {"train": "train.parquet", "test": "test.parquet"}  # by split, as the trainer's settings name them


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
    """What was written, by split, and what had to be decided about ids."""

    splits: dict[str, SplitCounts] = field(default_factory=lambda: {split: SplitCounts() for split in FILES})
    warnings: list[str] = field(default_factory=list)

    def lines(self, folder: StrPath) -> list[str]:
        """The report for a terminal."""
        lines = []
        for split, counts in self.splits.items():
            file = Path(folder) / FILES[split]
            line = f"{file}: {counts.written} rows"
            if counts.overlong:
                line += f", {counts.overlong} prompts over the limit left out"
            if counts.bad:
                line += f", {counts.bad} bad rows left out (see {rejects_path(file)})"
            lines.append(line)
        return lines


def build_parquet(
    train: Rows | StrPath | Sequence[Row],
    val: Rows | StrPath | Sequence[Row],
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

    ``train`` and ``val`` are files or rows: contexts if ``kind`` is ``multi_turn``, tasks with a statement if
    it is ``single_turn`` (whose prompts open with the system message of ``prompts``). Prompts of more than
    ``max_prompt_length`` tokens (generation header included) are left out. ``drop_extra_columns``: write
    verl's columns only, and no copy of the prompt inside ``extra_info``. Ids of both splits have one type in
    ``extra_info.index``: numbers if all are, else texts.

    Raises InputError, before anything is changed, for an input or folder that cannot be used (``file:line``).
    """
    if (max_prompt_length is None) != (model_name is None and tokenizer is None):
        raise InputError("--max_prompt_length and --model_name, which measures prompts, go together")
    folder, summary = Path(local_dir), Summary()
    if tokenizer is None and model_name is not None:
        tokenizer = load_tokenizer(model_name)
    counter = None if tokenizer is None else PromptCounter(tokenizer)
    shape = VerlRows(kind, prompts or load("default"), drop_extra_columns)
    sources = {"train": as_rows(train, "the train split"), "test": as_rows(val, "the test split")}
    rejects = {split: Rejects(folder / name, on_bad_row) for split, name in FILES.items()}
    kept, columns = dict[str, list[bool]](), dict[str, list[str]]()
    for split, source in sources.items():
        kept[split], columns[split] = _examine(
            source, rejects[split], shape, counter, max_prompt_length, summary.splits[split]
        )
    if shape.numbers and shape.texts:
        summary.warnings.append("some ids are numbers and some are texts: all are stored as texts")
    with ExitStack() as stack:
        targets = {split: stack.enter_context(replacing(folder / name)) for split, name in FILES.items()}
        for split, source in sources.items():
            good = checked(source, rejects[split], lambda row, where: row)
            rows = (row for (_, row), keep in zip(good, kept[split], strict=True) if keep)
            summary.splits[split].written = shape.write(targets[split], rows, columns[split], split)
    settings = {
        "stage": "parquet", "kind": kind, "model_name": model_name, "max_prompt_length": max_prompt_length,
        "system_prompt": shape.prompts.sha256 if kind == "single_turn" else None,
        "drop_extra_columns": drop_extra_columns, "on_bad_row": on_bad_row,
    }  # fmt: skip
    for split, name in FILES.items():
        rejects[split].close()
        write_manifest(
            folder / name,
            settings=settings | {"split": split},
            inputs={split: source for split, source in sources.items() if source.path is not None},
            counts=asdict(summary.splits[split]),
            extra={"warnings": summary.warnings},
        )
    return summary


def _examine(
    source: Rows,
    rejects: Rejects,
    shape: VerlRows,
    counter: PromptCounter | None,
    limit: int | None,
    counts: SplitCounts,
) -> tuple[list[bool], list[str]]:
    """Check every row: of each good one, whether its prompt is within the limit; the columns of those."""
    kept, columns = list[bool](), dict[str, None]()

    def measured(row: Row, where: str) -> tuple[Row, int]:
        shape.check(row, where)
        return row, 0 if counter is None else counter(shape.prompt(row), where)

    for _, (row, tokens) in checked(source, rejects, measured):
        counts.read += 1
        counts.longest_prompt = max(counts.longest_prompt, tokens)
        kept.append(limit is None or tokens <= limit)
        if kept[-1]:
            columns.update(dict.fromkeys(shape.columns(row)))
    counts.bad, counts.overlong = len(rejects), kept.count(False)
    if not counts.read:
        raise InputError(f"{source.name} holds no rows{' that can be used' if counts.bad else ''}")
    if counts.overlong == counts.read:
        raise InputError(f"{source.name}: every prompt has more than {limit} tokens (--max_prompt_length)")
    return kept, list(columns)


def _default_file(split: str) -> str:
    """The published default, or where the published filter of TACO leaves its files."""
    name = f"data/taco_verified_filtered_{split}.jsonl"
    filtered = f"verl/{name}"
    return filtered if os.path.exists(filtered) and not os.path.exists(name) else name


def _main(kind: Kind, argv: list[str] | None = None) -> int:
    """The command line of one kind; returns the exit code."""
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
        prompts_flag(flags)
    args = vars(flags.parse_args(argv))
    args["prompts"] = load(args["prompts"]) if kind == "single_turn" else None
    train, val, folder = (args.pop(name) for name in ("train_data_file", "val_data_file", "local_dir"))
    summary = build_parquet(train, val, folder, kind=kind, **args)
    tell(summary.lines(folder), summary.warnings)
    return 0


main_multi_turn, main_single_turn = partial(_main, "multi_turn"), partial(_main, "single_turn")
