"""The flags by which every door that runs programs says where."""

from cobalt.cli import Parser, positive_int


def evaluator_flags(flags: Parser) -> None:
    """Add `--evaluator` and `--workers`, the arguments of `cobalt.evaluator.connect`."""
    flags.add_argument(
        "--evaluator", default="auto", metavar="auto|local|serve|URL",
        help="where programs run; auto is the Serve application of a reachable cluster, else this machine",
    )  # fmt: skip
    flags.add_argument(
        "--workers", type=positive_int, help="worker processes of a local evaluator (default: one per core)"
    )
