"""The doors from contexts or tasks to the trainer's Parquet files, and the way back.

``train.parquet`` and ``test.parquet`` have the columns that verl reads (`cobalt.records.ParquetRow`) beside
those of the input (arXiv 2602.03806, released data scripts).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cobalt.contexts.tokens import PromptCounter, load_tokenizer
from cobalt.contexts.verl_rows import NO_ID, VERL_COLUMNS, Kind, VerlRows
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing
from cobalt.flags import parser, positive_int
from cobalt.prompts import Prompts, load
from cobalt.records import Row
from cobalt.store import read_jsonl, write_manifest

FILES = {"train": "train.parquet", "test": "test.parquet"}  # by split, as the trainer's settings name them

Rows = StrPath | Sequence[Row]


@dataclass
class SplitCounts:
    """Rows of one split: read, left out as too long, written; tokens of the longest prompt if counted."""

    read: int = 0
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
        return [
            f"{self.files[split]}: {counts.written} rows"
            + (f", {counts.overlong} prompts over the limit left out" if counts.overlong else "")
            for split, counts in self.splits.items()
        ]


def build_parquet(
    train: Rows,
    val: Rows,
    local_dir: StrPath,
    *,
    kind: Kind = "multi_turn",
    prompts: Prompts | None = None,
    max_prompt_length: int | None = None,
    model_name: str | None = None,
    tokenizer: Any = None,
    drop_extra_columns: bool = False,
) -> Summary:
    """Replace ``train.parquet`` and ``test.parquet`` in ``local_dir``, each atomically and after all checks.

    Args:
        train: path of a JSONL file, or rows: contexts (`cobalt.records.ContextRow`) if ``kind`` is
            ``multi_turn``, tasks with ``instruction`` if it is ``single_turn``.
        val: the same, for ``test.parquet``.
        prompts: whose system message opens single-turn prompts; default: the built-in set ``default``.
        max_prompt_length: leave out, and count, prompts of more tokens (generation header included).
        model_name: whose tokenizer counts them, if ``tokenizer`` is None.
        drop_extra_columns: write only verl's columns, and no copy of the prompt inside ``extra_info``.

    Ids of both splits have one type in ``extra_info.index``: numbers if all are, else texts.

    Raises:
        InputError: an unreadable file, a malformed row (``file:line``, field), no rows, no row within the
            limit, or a folder that cannot be written. Nothing has been changed then.
    """
    from cobalt.contexts.columns import Columns, batches, write_parquet

    if max_prompt_length is not None and tokenizer is None and model_name is None:
        raise InputError("--max_prompt_length needs --model_name, whose tokenizer measures the prompts")
    if max_prompt_length is None and model_name is not None:
        raise InputError("--model_name measures prompts for --max_prompt_length: give both or neither")
    folder, summary, columns = Path(local_dir), Summary(), Columns()
    counter = None
    if max_prompt_length is not None:
        counter = PromptCounter(load_tokenizer(model_name or "") if tokenizer is None else tokenizer)
    shape = VerlRows(kind, prompts or load("default"), drop_extra_columns)
    sources = {"train": train, "test": val}
    kept: dict[str, list[bool]] = {split: [] for split in FILES}
    for split, source in sources.items():
        checked = _checked(source, split, shape, counter, max_prompt_length, summary, kept[split])
        for batch in batches(checked):
            columns.observe(split, [shape.extra_columns(row) for row in batch])

    summary.json_columns = sorted(columns.as_json - {shape.id_field})
    if shape.ids_differ:
        summary.warnings.append("some ids are numbers and some are texts: all are stored as texts")
    if summary.json_columns:
        summary.warnings.append(f"stored as JSON text: {', '.join(summary.json_columns)}")
    with ExitStack() as stack:
        targets = {split: stack.enter_context(replacing(folder / name)) for split, name in FILES.items()}
        for split, source in sources.items():
            schema = columns.schema(split, shape.types(), {shape.id_field: shape.index_type})
            rows = (
                shape.convert(row, split)
                for (_, row), keep in zip(_rows(source), kept[split], strict=True)
                if keep
            )
            summary.splits[split].written = write_parquet(targets[split], rows, schema)
            summary.files[split] = str(folder / FILES[split])
    _write_manifests(folder, sources, shape, summary, model_name, max_prompt_length)
    return summary


def _checked(
    source: Rows,
    split: str,
    shape: VerlRows,
    counter: PromptCounter | None,
    limit: int | None,
    summary: Summary,
    kept: list[bool],
) -> Iterator[Row]:
    """The rows within the limit, after every check; notes for each row whether it is one of them."""
    counts = summary.splits[split]
    for where, row in _rows(source):
        shape.check(row, where)
        counts.read += 1
        tokens = 0 if counter is None else counter(shape.prompt(row), where)
        counts.longest_prompt = max(counts.longest_prompt, tokens)
        kept.append(limit is None or tokens <= limit)
        counts.overlong += not kept[-1]
        if kept[-1]:
            yield row
    name = str(source) if isinstance(source, str | os.PathLike) else f"the {split} split"
    if not counts.read:
        raise InputError(f"{name} holds no rows")
    if counts.overlong == counts.read:
        raise InputError(f"{name}: every prompt has more than {limit} tokens (--max_prompt_length)")


def _rows(source: Rows) -> Iterator[tuple[str, Row]]:
    if isinstance(source, str | os.PathLike):
        return ((f"{os.fspath(source)}:{number}", row) for number, row in read_jsonl(source))
    return ((f"row {number}", row) for number, row in enumerate(source, start=1))


def _write_manifests(
    folder: Path,
    sources: dict[str, Rows],
    shape: VerlRows,
    summary: Summary,
    model_name: str | None,
    max_prompt_length: int | None,
) -> None:
    settings = {
        "stage": "parquet",
        "kind": shape.kind,
        "system_prompt": shape.prompts.sha256 if shape.kind == "single_turn" else None,
        "model_name": model_name,
        "max_prompt_length": max_prompt_length,
        "drop_extra_columns": shape.drop,
    }
    inputs = {split: source for split, source in sources.items() if isinstance(source, str | os.PathLike)}
    for split, name in FILES.items():
        write_manifest(
            folder / name,
            settings=settings | {"split": split},
            inputs=inputs,
            counts=asdict(summary.splits[split]),
            extra={"json_columns": summary.json_columns, "warnings": summary.warnings},
        )


def read_parquet(path: StrPath) -> Iterator[Row]:
    """The input rows of a Parquet file of this stage, or of the published scripts.

    Gives contexts (`cobalt.records.ContextRow`) or, for a single-turn file, tasks, with whatever other
    columns the file kept. Nulls are left out. Raises InputError for a file that is no Parquet or lacks a
    column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cobalt.contexts.columns import BATCH_ROWS, json_columns

    try:
        file = pq.ParquetFile(path)
        missing = [name for name in VERL_COLUMNS if name not in file.schema_arrow.names]
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from None
    except pa.ArrowInvalid as error:
        raise InputError(f"{os.fspath(path)}: not a Parquet file ({error})") from None
    if missing:
        raise InputError(f"{os.fspath(path)}: column '{missing[0]}' is missing")
    return _restored(file, json_columns(file.schema_arrow), BATCH_ROWS)


def _restored(file: Any, as_json: list[str], batch_rows: int) -> Iterator[Row]:
    with file:
        for batch in file.iter_batches(batch_rows):
            for stored in batch.to_pylist():
                row = {name: value for name, value in stored.items() if value is not None}
                info = row["extra_info"]
                kept = {
                    name: json.loads(value) if name in as_json else value
                    for name, value in row.items()
                    if name not in VERL_COLUMNS
                }
                tests = {"test_cases": row["reward_model"]["ground_truth"]}
                # Only contexts have a previous best; single-turn files never did.
                if "prev_best_pass_rate" in info:
                    made = {"conversation": row["prompt"], "prev_best_pass_rate": info["prev_best_pass_rate"]}
                    name = "example_id"
                else:
                    made = {"instruction": row["prompt"][-1]["content"]}
                    name = "id"
                if info.get("index", NO_ID) not in (NO_ID, str(NO_ID)):
                    made[name] = info["index"]
                yield kept | made | tests


def main_multi_turn(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/verl_preproc_multi_turn.py``; returns the exit code."""
    return _main("multi_turn", argv)


def main_single_turn(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/verl_preproc_single_turn.py``; returns the exit code."""
    return _main("single_turn", argv)


def _main(kind: Kind, argv: list[str] | None) -> int:
    what = "contexts" if kind == "multi_turn" else "tasks"
    flags = parser(f"Turn {what} into the Parquet files that verl trains on.")
    flags.add_argument("--local_dir", required=True, help="folder for train.parquet and test.parquet")
    flags.add_argument(
        "--train_data_file", default="data/taco_verified_filtered_train.jsonl", help=f"JSONL of {what}"
    )
    flags.add_argument(
        "--val_data_file", default="data/taco_verified_filtered_dev.jsonl", help=f"JSONL of {what}"
    )
    flags.add_argument("--model_name", help="whose tokenizer measures prompts, for --max_prompt_length")
    flags.add_argument(
        "--max_prompt_length", type=positive_int, help="leave out, and count, prompts of more tokens"
    )
    flags.add_argument(
        "--drop_extra_columns", action="store_true", help="write verl's columns only: smaller files"
    )
    if kind == "single_turn":
        flags.add_argument(
            "--prompts", default="default", metavar="default|tiny|FILE", help="whose system message to use"
        )
    args = flags.parse_args(argv)
    summary = build_parquet(
        args.train_data_file,
        args.val_data_file,
        args.local_dir,
        kind=kind,
        prompts=load(args.prompts) if kind == "single_turn" else None,
        max_prompt_length=args.max_prompt_length,
        model_name=args.model_name,
        drop_extra_columns=args.drop_extra_columns,
    )
    for warning in summary.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print("\n".join(summary.lines()))
    return 0
