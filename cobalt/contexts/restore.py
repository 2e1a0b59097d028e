"""From the trainer's Parquet files back to contexts or tasks, of ours and of the published scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from cobalt.contexts.verl_rows import NO_ID, VERL_COLUMNS
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.rows import Row


def read_parquet(path: StrPath) -> Iterator[Row]:
    """The input rows of a Parquet file of this stage, or of the published scripts.

    Gives contexts (`cobalt.schema.ContextRow`) or, for a single-turn file, tasks, with whatever other
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
