"""Groups of stored programs from Project CodeNet, for training without sampling (arXiv 2605.28409):
`preproc/preproc_codenet.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing
from cobalt.manifest import write_manifest
from cobalt.output import write_jsonl
from cobalt.prompts import load
from cobalt.rows import Row
from cobalt.tasks.codenet_tree import CodenetCounts, CodenetSettings, groups_of, problem_ids

_BATCH = 256


def build_codenet(
    root: StrPath, output: StrPath, settings: CodenetSettings, progress: Progress | None = None
) -> CodenetCounts:
    """Replace ``output`` (Parquet if its name says so, else JSONL), atomically, by the groups of a tree.

    Raises InputError for a folder that is no such tree, metadata that cannot be read, or no group at all.
    """
    root, output = Path(root), Path(output)
    problems, counts = problem_ids(root)[: settings.problems], CodenetCounts()

    def groups() -> Iterator[Row]:
        for number, problem in enumerate(problems, start=1):
            yield from groups_of(root, problem, settings, counts)
            if progress is not None:
                progress.advance("problems", number, len(problems), groups=counts.groups)
        if not counts.groups:
            raise InputError(
                f"{root}: no problem has {settings.size} {settings.language} programs, right and wrong"
            )

    if output.suffix == ".parquet":
        _write_parquet(output, groups())
    else:
        write_jsonl(output, groups())
    names = ("language", "max_groups", "max_letters", "problems", "seed")
    write_manifest(
        output,
        settings={name: getattr(settings, name) for name in names}
        | {
            "stage": "groups from CodeNet",
            "group_size": settings.size,
            "prompts": settings.prompts.sha256,
        },
        counts=asdict(counts),
        extra={"input": {"name": str(root), "problems": len(problems)}},
    )
    return counts


def _write_parquet(output: Path, groups: Iterator[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.int64()
    message = pa.struct([("role", text), ("content", text)])
    names = ("text", "pass_rate", "submission_id", "status", "parses", "cpu_time", "memory", "code_size")
    types = (text, pa.float64(), text, text, pa.bool_(), number, number, number)
    schema = pa.schema(
        [
            ("data_source", text),
            ("prompt", pa.list_(message)),
            ("completions", pa.list_(pa.struct(list(zip(names, types, strict=True))))),
            ("extra_info", pa.struct([("split", text), ("index", text)])),
        ]
    )
    with replacing(output) as handle, pq.ParquetWriter(handle, schema) as writer:
        while batch := list(islice(groups, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Build groups of stored programs from Project CodeNet, for offline training.")
    flags.add_argument(
        "-i", "--input_dir", required=True, help="folder of metadata, data, problem_descriptions"
    )
    flags.add_argument(
        "-o", "--output_file", default="data/codenet_groups.parquet", help="Parquet (or .jsonl) to write"
    )
    flags.add_argument("--language", default="Python", help="as its folders are named")
    flags.add_argument(
        "--group_size", type=positive_int, default=4, help="programs, at least one right and one wrong"
    )
    flags.add_argument("--max_groups", type=positive_int, default=4, help="groups of a problem, at most")
    flags.add_argument("--max_letters", type=positive_int, default=20_000, help="longest program")
    flags.add_argument("--problems", type=positive_int, help="the first so many (default: all)")
    flags.add_argument("--seed", type=int, default=42, help="of the choice of programs")
    flags.add_argument(
        "--prompts", default="default", metavar="default|tiny|FILE", help="how statements are put"
    )
    args = flags.parse_args(argv)
    settings = CodenetSettings(
        load(args.prompts), args.language, args.group_size, args.max_groups, args.max_letters, args.seed,
        args.problems,
    )  # fmt: skip
    with make_progress() as progress:
        counts = build_codenet(args.input_dir, args.output_file, settings, progress)
    lines = [
        f"{args.output_file}: {counts.groups} groups of {settings.size}, {counts.right} programs right, "
        f"from {counts.problems} problems and {counts.programs} {settings.language} programs"
    ]
    for what, reasons in (("problems", counts.problems_left_out), ("programs", counts.programs_left_out)):
        lines += [f"{count} {what} left out: {reason}" for reason, count in sorted(reasons.items())]
    tell(lines)
    return 0
