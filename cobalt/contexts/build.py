"""The door from evaluated trajectories to bandit contexts (``preproc/process_multi_turn_taco.py``)."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.contexts.builder import Builder, Built, chunks
from cobalt.contexts.parallel import in_order
from cobalt.contexts.select import SELECTIONS, Selection
from cobalt.contexts.slice import MAX_PROMPT_TOKENS, POLICIES, Policy
from cobalt.contexts.summary import Summary, draw_lengths
from cobalt.contexts.tokens import PromptCounter, load_tokenizer
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing, writing
from cobalt.manifest import write_manifest
from cobalt.rejects import Rejects
from cobalt.rows import INPUT_HELP, Raw, Row, Rows, open_rows
from cobalt.tasks.doors import bad_row_flag, cores

DEFAULT_MODEL = "Qwen/Qwen3-8B"
DEFAULT_SEED = 42


def build_contexts(
    source: Rows | StrPath | Iterable[Row],
    output: StrPath,
    *,
    is_test: bool = False,
    policy: Policy = "faithful",
    selection: Selection = "max_variance",
    max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    seed: int = DEFAULT_SEED,
    model_name: str = DEFAULT_MODEL,
    tokenizer: Any = None,
    workers: int = 1,
    on_bad_row: str = "fail",
    histogram: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Select, slice and shuffle; replaces ``output`` (JSONL of `cobalt.schema.ContextRow`) atomically.

    Each task that is not skipped gives its opening as a context (of any length, as published), then the
    slices of its kept trajectories. Rows are held on disk; in memory each leaves an offset. The order is
    that of ``random.Random(seed).shuffle``, whatever the number of processes.

    Args:
        source: path of a JSONL file of `cobalt.schema.EvalRow` or ``NAME[:split]``, or the rows.
        is_test: use the validation rule of selection.
        policy: ``faithful`` or ``fixed`` stop rules (see `cobalt.contexts.slice.slices`).
        selection: which trajectories of a task are cut (see `cobalt.contexts.select.select`).
        max_prompt_tokens: longest prompt of a slice, generation header included.
        model_name: whose tokenizer counts, if ``tokenizer`` is None.
        tokenizer: object with ``apply_chat_template`` (as in transformers).
        workers: processes that parse rows and count tokens.
        on_bad_row: ``fail``, or ``skip`` and list in ``OUTPUT.rejects.jsonl``.
        histogram: draw prompt lengths to `histogram_path(output)`.

    Raises:
        InputError: an unreadable file, a malformed row (``file:line``, field), a doubled id, no rows, no
            tokenizer, or an output that cannot be written. Nothing has been changed then.
    """
    started = time.perf_counter()
    if policy not in POLICIES:
        raise InputError(f"--policy must be one of {', '.join(POLICIES)}, got {policy!r}")
    if selection not in SELECTIONS:
        raise InputError(f"--selection must be one of {', '.join(SELECTIONS)}, got {selection!r}")
    output = Path(output)
    if isinstance(source, str | os.PathLike):
        source = open_rows(source)
    paths = source.paths if isinstance(source, Rows) else []
    if any(output.exists() and output.samefile(path) for path in paths):
        raise InputError(f"{output} is the input: give another --output_file")
    counter = PromptCounter(load_tokenizer(model_name) if tokenizer is None else tokenizer)
    builder = Builder(counter, is_test, policy, max_prompt_tokens, selection, seed)
    summary, rejects = Summary(), Rejects(output, on_bad_row)

    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        spool = tempfile.TemporaryFile(dir=output.parent)  # noqa: SIM115 - closed by the next statement
    with spool, replacing(output) as target:
        offsets = array("q")
        for built in _good(source, builder, workers, rejects):
            for line in built.lines:
                offsets.append(spool.tell())
                spool.write(line)
            summary.add(built.counts)
            if progress is not None:
                progress.advance("contexts", summary.tasks, None, written=summary.contexts)
        if not summary.tasks:
            raise InputError(f"{_name(source)} holds no rows that can be used")
        random.Random(seed).shuffle(offsets)
        for offset in offsets:
            spool.seek(offset)
            target.write(spool.readline())

    rejects.close()
    summary.bad_rows = len(rejects)
    summary.finish()
    if histogram:
        draw_lengths(summary, histogram_path(output), max_prompt_tokens)
    summary.wall_s = round(time.perf_counter() - started, 3)
    write_manifest(
        output,
        settings={
            "stage": "contexts",
            "is_test": is_test,
            "policy": policy,
            "selection": selection,
            "max_prompt_tokens": max_prompt_tokens,
            "seed": seed,
            "model_name": model_name if tokenizer is None else str(getattr(tokenizer, "name_or_path", "")),
            "on_bad_row": on_bad_row,
        },
        inputs=paths if len(paths) == 1 else [],
        counts=summary.counts(),
        extra={"warnings": summary.warnings, "wall_s": summary.wall_s, "workers": workers}
        | ({"input": source.facts()} if isinstance(source, Rows) else {}),
    )
    return summary


def histogram_path(output: StrPath) -> Path:
    """Where the histogram of prompt lengths is: ``<output>.prompt_tokens.png``."""
    return Path(os.fspath(output) + ".prompt_tokens.png")


def _raw(source: Rows | Iterable[Row]) -> Iterator[tuple[str, Raw]]:
    if isinstance(source, Rows):
        return source.raw()
    return ((f"row {number}", row) for number, row in enumerate(source, start=1))


def _name(source: Rows | Iterable[Row]) -> str:
    return source.name if isinstance(source, Rows) else "the input"


def _good(source: Rows | Iterable[Row], builder: Builder, workers: int, rejects: Rejects) -> Iterator[Built]:
    """What became of every good row, in order; ids that occur twice are bad."""
    seen: set[str | int] = set()
    waiting: list[list[tuple[str, Raw]]] = []

    def sent() -> Iterator[list[tuple[str, Raw]]]:
        for chunk in chunks(_raw(source)):
            waiting.append(chunk)
            yield chunk

    for results in in_order(builder, sent(), workers):
        for built, (where, raw) in zip(results, waiting.pop(0), strict=True):
            error = built.error
            if error is None and built.task_id in seen:
                error = f"{where}: id {built.task_id!r} occurs twice"
            if error is not None:
                rejects.add(where, InputError(error), raw)
                continue
            assert built.task_id is not None
            seen.add(built.task_id)
            yield built


def main(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/process_multi_turn_taco.py``; returns the exit code."""
    flags = parser("Select trajectories and cut them into bandit contexts.")
    flags.add_argument("-i", "--input_file", required=True, help=f"evaluated trajectories: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL of contexts to write")
    flags.add_argument("--model_name", default=DEFAULT_MODEL, help="whose tokenizer measures prompts")
    flags.add_argument("--is_test", action="store_true", help="validation rule: one trajectory per task")
    flags.add_argument(
        "--policy", choices=POLICIES, default="faithful", help="stop rules: as published, or corrected"
    )
    flags.add_argument(
        "--selection", choices=SELECTIONS, default="max_variance",
        help="trajectories of a task that are cut: as published, or for ablations",
    )  # fmt: skip
    flags.add_argument(
        "--max_prompt_tokens", type=positive_int, default=MAX_PROMPT_TOKENS, help="longest prompt of a slice"
    )
    flags.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of the shuffle")
    flags.add_argument("--workers", type=positive_int, help="processes (default: one per core)")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    with make_progress() as progress:
        summary = build_contexts(
            open_rows(args.input_file),
            args.output_file,
            is_test=args.is_test,
            policy=args.policy,
            selection=args.selection,
            max_prompt_tokens=args.max_prompt_tokens,
            seed=args.seed,
            model_name=args.model_name,
            workers=args.workers or cores(),
            on_bad_row=args.on_bad_row,
            histogram=True,
            progress=progress,
        )
    lines = [*summary.lines(), f"prompt lengths: {histogram_path(args.output_file)}"]
    if summary.bad_rows:
        lines.append(f"{summary.bad_rows} bad rows left out, see {args.output_file}.rejects.jsonl")
    tell(lines, summary.warnings)
    print(json.dumps({"output": args.output_file, "contexts": summary.contexts, "wall_s": summary.wall_s}))
    return 0
