"""The command line of ``preproc/preproc_taco.py``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import cast

from cobalt.cli import make_progress, parser, tell
from cobalt.evaluator.door import evaluator_flags
from cobalt.prompts import load
from cobalt.rows import INPUT_HELP, open_rows
from cobalt.tasks.build_taco import build_taco
from cobalt.tasks.doors import bad_row_flag
from cobalt.tasks.reference import MAX_SOLUTIONS, Judge
from cobalt.tasks.splits import DEV_SIZE, NUM_PUBLIC
from cobalt.tasks.taco import FUNCTIONAL
from cobalt.tasks.taco_files import SPLITS, TacoSettings, overlap_path, split_path

DEFAULT_INPUT = "likaixin/TACO-verified"
DEFAULT_OUTPUT = "verl/data/taco_verified_filtered.jsonl"  # as published


def main(argv: list[str] | None = None) -> int:
    """Run the door; returns the exit code."""
    flags = parser("Filter TACO-verified into tasks, check them with their reference solutions, split them.")
    flags.add_argument("-i", "--input_file", default=DEFAULT_INPUT, help=INPUT_HELP)
    flags.add_argument(
        "-o", "--output_file", default=DEFAULT_OUTPUT, help="JSONL of all tasks; _train and _dev beside it"
    )
    flags.add_argument(
        "--max_solutions", type=int, default=MAX_SOLUTIONS,
        help="reference solutions tried per task until one passes; 0 runs none (verified is null)",
    )  # fmt: skip
    flags.add_argument(
        "--require_verified", action="store_true", help="drop tasks of which no reference solution passes"
    )
    flags.add_argument(
        "--functional", choices=FUNCTIONAL, default="stdin",
        help="tasks that ask for a function: tests as texts (published), as real calls, or dropped",
    )  # fmt: skip
    flags.add_argument(
        "--num_public", type=int, default=NUM_PUBLIC, help="tests shown to the model: the first"
    )
    flags.add_argument("--dev_size", type=int, default=DEV_SIZE, help="tasks of the development split")
    flags.add_argument("--seed", type=int, default=42, help="of the split and of the order of solutions")
    flags.add_argument(
        "--decontaminate", metavar="FILE",
        help="LiveCodeBench file: list tasks that share sequences of 13 words with its problems",
    )  # fmt: skip
    flags.add_argument("--prompts", default="default", metavar="default|tiny|FILE", help="whose wrapper")
    evaluator_flags(flags)
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    settings = TacoSettings(
        seed=args.seed, max_solutions=args.max_solutions, require_verified=args.require_verified,
        num_public=args.num_public, dev_size=args.dev_size, functional=args.functional,
        prompts=load(args.prompts),
    )  # fmt: skip
    source = open_rows(args.input_file)
    problems = None if args.decontaminate is None else open_rows(args.decontaminate)
    with ExitStack() as stack:

        def judge() -> Judge:
            from cobalt.evaluator import connect

            found = stack.enter_context(connect(args.evaluator, workers=args.workers))
            return cast(Judge, found)  # those of connect take a rule

        progress = stack.enter_context(make_progress())
        summary = build_taco(
            source, args.output_file, settings, evaluator=judge, problems=problems,
            on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    files = [args.output_file, *(split_path(args.output_file, split) for split in SPLITS)]
    written = [f"wrote {', '.join(map(str, files))}"]
    if problems is not None:
        written.append(f"wrote {overlap_path(args.output_file)}")
    tell([*summary.funnel(), *written], summary.warnings)
    return 0
