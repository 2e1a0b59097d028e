"""Training data: checked before anything starts, overlong prompts taken out and counted, nothing ever cut."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.testcases import TestCases
from cobalt.training.scoring import is_validation

PUBLIC = "public_test_cases"
COLUMNS = ("data_source", "prompt", "ability", "reward_model", "extra_info")
# What verl (the last three only where a file has them), its agent loops and our rewards read of a row.
_READ = (
    *("data_source", "prompt", "reward_model", "extra_info"),
    *("agent_name", "__rollout_n__", "__do_sample__"),
)
_READ_OF_INFO = (
    *("split", "index", "prev_best_pass_rate"),
    *("need_tools_kwargs", "tools_kwargs", "interaction_kwargs"),
)


@dataclass(frozen=True)
class DataCheck:
    """What a Parquet file holds: ``rows`` that fit, ``overlong`` rows left out, prompt lengths in tokens.

    ``path``: the file to train from; ``sha256``: of what is learnt from in its rows, in order; ``first`` row.
    """

    path: Path
    rows: int
    overlong: int
    mean_prompt: float
    longest_prompt: int
    sha256: str
    first: dict[str, Any] = field(default_factory=dict, compare=False)


def check_files(paths: Any, *, what: str, validation: bool, dialogues: bool = False) -> Any:
    """The rows of one file, or of several one after another, as ``check_file`` gives them."""
    import pyarrow

    files = [paths] if isinstance(paths, str | Path) else list(paths)
    tables = [check_file(Path(path), what=what, validation=validation, dialogues=dialogues) for path in files]
    try:
        return tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables, promote_options="permissive")
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{what} {', '.join(map(str, files))}: columns differ ({said})") from None


def read_parquet(path: Path, what: str) -> Any:
    """A pyarrow table. Raises InputError, which begins with ``what``, for a file that is none."""
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        return parquet.read_table(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{what} {path}: cannot be read as Parquet ({reason})") from None


def check_file(path: Path, *, what: str, validation: bool, dialogues: bool = False) -> Any:
    """Read a file and check every row; returns the pyarrow table. ``dialogues``: rows need public tests.

    Raises InputError that names the file, the row (from 0) and the field.
    """
    table = read_parquet(path, what)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(
            f"{what} {path}: column {', '.join(missing)} missing; make the file with "
            "preproc/verl_preproc_multi_turn.py or preproc/verl_preproc_single_turn.py"
        )
    if table.num_rows == 0:
        raise InputError(f"{what} {path}: no rows")
    if dialogues and PUBLIC not in table.column_names:
        raise InputError(
            f"{what} {path}: column {PUBLIC} missing, whose outcome online dialogues show; make the file "
            "with preproc/verl_preproc_single_turn.py from tasks that have it (without --drop_extra_columns)"
        )
    names = [*COLUMNS, *([PUBLIC] if dialogues else [])]
    for number, row in enumerate(table.select(names).to_pylist()):
        where = f"{what} {path}: row {number}"
        _check_row(row, where, validation)
        if dialogues and len(TestCases.parse(row[PUBLIC] or "", where=f"{where}: field '{PUBLIC}'")) == 0:
            raise InputError(f"{where}: field '{PUBLIC}' has no tests")
    return table


def check_prompt(prompt: Any, where: str) -> None:
    """Raises InputError unless a prompt is messages that end with the user's."""
    if not isinstance(prompt, list) or not prompt:
        raise InputError(f"{where}: field 'prompt' must be a list of messages")
    for message in prompt:
        parts = [message.get(key) for key in ("role", "content")] if isinstance(message, dict) else [None]
        if not all(isinstance(part, str) for part in parts):
            raise InputError(f"{where}: field 'prompt' has a message without role or content")
    if prompt[-1]["role"] != "user":
        raise InputError(f"{where}: field 'prompt' must end with a user message, not {prompt[-1]['role']!r}")


def _check_row(row: dict[str, Any], where: str, validation: bool) -> None:
    check_prompt(row["prompt"], where)
    truth = (row["reward_model"] or {}).get("ground_truth")
    if truth is None:
        raise InputError(f"{where}: field 'reward_model' has no 'ground_truth'")
    if len(TestCases.parse(truth, where=f"{where}: reward_model.ground_truth")) == 0:
        raise InputError(f"{where}: reward_model.ground_truth has no tests")
    extra = row["extra_info"] or {}
    try:
        found = is_validation(extra)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if found != validation:
        raise InputError(
            f"{where}: extra_info.split is {extra['split']!r} in a file for "
            f"{'validation' if validation else 'training'}"
        )
    best = extra.get("prev_best_pass_rate")
    if best is not None and not 0.0 <= best <= 1.0:
        raise InputError(f"{where}: extra_info.prev_best_pass_rate must be in [0, 1], got {best!r}")


def lengths(table: Any, tokenizer: Any, where: str = "training data") -> list[int]:
    """Tokens of every prompt as the trainer will count them.

    Raises InputError, which begins with ``where``, for a prompt that the chat template refuses.
    """
    texts = []
    for number, prompt in enumerate(table.column("prompt").to_pylist()):
        try:
            texts.append(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False))
        except Exception as error:  # templates raise whatever they like
            roles = ", ".join(message["role"] for message in prompt)
            raise InputError(
                f"{where}: row {number}: the chat template refuses this prompt (roles {roles}): {error}"
            ) from error
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]


def fit_prompts(
    table: Any, where: str, tokenizer: Any, limit: int, target: Path, columns: Collection[str] = ()
) -> DataCheck:
    """Leave out rows whose prompts are over ``limit`` tokens, and write the others to ``target``, with what
    is read of them and ``columns`` (`needed`).

    Raises InputError, which begins with ``where``, if none is left.
    """
    import pyarrow.parquet as parquet

    counted = lengths(table, tokenizer, where)
    kept = [number for number, length in enumerate(counted) if length <= limit]
    if not kept:
        raise InputError(
            f"{where}: every one of the {len(counted)} prompts is longer than "
            f"data.max_prompt_length={limit} (shortest {min(counted)} tokens): give "
            f"data.max_prompt_length={max(counted)}, or a model whose tokenizer knows these words"
        )
    left = needed(table, columns).take(kept)
    target.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(left, target)
    fitting = [counted[number] for number in kept]
    mean, overlong = sum(fitting) / len(fitting), len(counted) - len(kept)
    first: dict[str, Any] = left.slice(0, 1).to_pylist()[0]
    return DataCheck(target, len(kept), overlong, mean, max(fitting), _digest(left), first)


def needed(table: Any, columns: Collection[str] = ()) -> Any:
    """The columns that are read in a training, and of ``extra_info`` the fields that are.

    verl sends every column of a row with every sample of it. ``columns``: further ones to keep;
    ``extra_info`` among them keeps that whole.
    """
    import pyarrow
    from pyarrow.compute import struct_field

    table = table.select([name for name in table.column_names if name in (*_READ, *columns)])
    if "extra_info" in columns:
        return table
    place, info = table.column_names.index("extra_info"), table.column("extra_info")
    names = [field.name for field in info.type if field.name in _READ_OF_INFO]
    parts = [pyarrow.StructArray.from_arrays([struct_field(p, n) for n in names], names) for p in info.chunks]
    return table.set_column(place, "extra_info", pyarrow.chunked_array(parts))


def _digest(table: Any) -> str:
    digest = hashlib.sha256()
    for row in table.to_pylist():
        info = row["extra_info"]
        shown = [row["prompt"], info.get("index"), info.get("prev_best_pass_rate")]
        for text in (json.dumps(shown), row["reward_model"]["ground_truth"], row.get(PUBLIC) or ""):
            digest.update(f"{len(text)}:{text}".encode())
    return digest.hexdigest()


def mix(honest: Any, perturbed: Any, share: float, seed: int, where: str) -> Any:
    """A pyarrow table in which ``share`` of the rows, in (0, 1], are contexts from perturbed tests.

    As many rows as ``honest`` has, or fewer if there are too few perturbed ones; the columns of both. Rows
    are drawn without replacement and shuffled by ``seed``. Raises InputError (``where``: the perturbed file)
    for a share out of range, or for a task whose tests differ between the files: rewards come from the true
    tests.
    """
    import pyarrow as pa

    if not 0.0 < share <= 1.0:
        raise InputError(f"cobalt.ptb.share must be in (0, 1], got {share!r}")
    truth = dict(_truths(honest))
    for number, (index, given) in enumerate(_truths(perturbed)):
        expected = truth.get(index)
        if expected not in (None, given) and TestCases.parse(expected) != TestCases.parse(given):
            raise InputError(
                f"{where}: row {number}: reward_model.ground_truth differs from the training data's for task "
                f"{index}: rewards must come from the true tests"
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


def _truths(table: Any) -> list[tuple[Any, Any]]:
    """(the task's id, of which a context's may carry its slice behind it; its tests) of every row."""
    rows = table.select(["reward_model", "extra_info"]).to_pylist()
    return [(row["extra_info"].get("index"), row["reward_model"]["ground_truth"]) for row in rows]
