"""Contexts whose feedback comes from perturbed tests, mixed into honest ones (recipe ``cobalt_ptb``)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.testcases import TestCases


def mix(honest: Any, perturbed: Any, share: float, seed: int, where: str) -> Any:
    """A pyarrow table in which ``share`` of the rows, in (0, 1], are drawn from ``perturbed``.

    As many rows as ``honest`` has, or fewer if there are too few perturbed ones; the columns of both. Rows
    are drawn without replacement and shuffled by ``seed``. Raises InputError (``where``: the perturbed file)
    for a share out of range, or for a task whose tests differ between the files: rewards come from the true
    tests.
    """
    import pyarrow as pa

    if not 0.0 < share <= 1.0:
        raise InputError(f"cobalt.ptb.share must be in (0, 1], got {share!r}")
    truth = {_index(row): row["reward_model"]["ground_truth"] for row in _rows(honest)}
    for number, row in enumerate(_rows(perturbed)):
        expected = truth.get(_index(row))
        given = row["reward_model"]["ground_truth"]
        if expected not in (None, given) and TestCases.parse(expected) != TestCases.parse(given):
            raise InputError(
                f"{where}: row {number}: reward_model.ground_truth differs from the training data's for task "
                f"{_index(row)}: rewards must come from the true tests"
            )
    total = min(honest.num_rows, int(perturbed.num_rows / share))
    count = round(share * total)
    if count == 0:
        raise InputError(f"{where}: {perturbed.num_rows} rows are too few for a share of {share:g}")
    draw = random.Random(seed)
    names = [name for name in honest.column_names if name in perturbed.column_names]
    parts = [
        table.select(names).take(pa.array(sorted(draw.sample(range(table.num_rows), number)), pa.int64()))
        for table, number in ((honest, total - count), (perturbed, count))
    ]
    joined = pa.concat_tables(parts, promote_options="permissive")
    order = list(range(joined.num_rows))
    draw.shuffle(order)
    return joined.take(order)


def write_mix(config: Any, honest: Any, perturbed: Any, target: Path) -> str:
    """Write the mixed rows to ``target`` and say how many came from where."""
    import pyarrow.parquet as parquet

    share, path = float(config.cobalt.ptb.share), config.cobalt.ptb.file
    table = mix(honest, perturbed, share, int(config.data.seed), f"perturbed contexts {path}")
    target.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, target)
    count = round(share * table.num_rows)
    return f"contexts: {table.num_rows - count} honest and {count} perturbed (share {share:g})"


def _rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.select(["reward_model", "extra_info"]).to_pylist()
    return rows


def _index(row: dict[str, Any]) -> Any:
    """The task's id: a context's may carry its slice behind it."""
    return row["extra_info"].get("index")
