"""Every assumption of `cobalt plan`, in one place: name, default, unit and the reason for the default.

``--assume name=value`` or a measured file (``--bench``) replaces a default; what was used, and from where, is
part of the plan. Names start with what they are about: `contest` and `tiny` are kinds of tasks, `thinking`,
`plain` and `tiny` kinds of responses, `gpu.KIND` a device.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cobalt.errors import InputError


@dataclass(frozen=True)
class Assumption:
    """One number. ``low``: the least value allowed; ``source``: default, or where it was replaced."""

    name: str
    default: float
    unit: str
    reason: str
    low: float = 0.0
    source: str = "default"

    @property
    def value(self) -> float:
        """The number itself (the default unless replaced)."""
        return self.default


_UNMEASURED = "not measured; an order of magnitude"
_RENT = "order of magnitude of hourly rents in 2025; give yours"
_SPEC = "the maker's data sheet"

_ROWS: list[tuple[str, float, str, str]] = [
    # Tasks.
    ("contest.train_tasks", 5853, "tasks", "reported size of the training split of TACO"),
    ("contest.dev_tasks", 250, "tasks", "reported size of the development split"),
    ("contest.lcb_tasks", 175, "tasks", "LiveCodeBench v6, `test6.jsonl`"),
    ("contest.tests", 20, "tests", "the filter keeps 8 to 20; the cap, so an upper bound"),
    ("contest.lcb_public_tests", 3, "tests", _UNMEASURED),
    ("contest.lcb_hidden_tests", 30, "tests", _UNMEASURED),
    ("contest.statement_tokens", 500, "tokens, median",
     _UNMEASURED + " for statements of about 1,800 characters"),
    ("contest.statement_sigma", 0.5, "of the logarithm", _UNMEASURED),
    ("contest.feedback_tokens", 150, "tokens, median",
     "three values, each cut at 400 characters, most shorter"),
    ("contest.feedback_sigma", 0.7, "of the logarithm", _UNMEASURED),
    ("contest.characters_per_token", 3.5, "characters",
     "English and Python with vocabularies of 100,000 and more"),
    ("contest.test_bytes", 2000, "bytes",
     _UNMEASURED + "; input and output of a test, TACO has much larger ones"),
    ("contest.verdict_bytes", 700, "bytes",
     "a stored verdict with its feedback, three values of up to 400 characters"),
    ("contest.test_ms", 30, "ms of CPU, median",
     "program alone; the same figure as in `cobalt plan` without a file"),
    ("contest.test_sigma", 0.5, "of the logarithm", "as in `cobalt plan` without a file"),
    ("contest.slow_share", 0.02, "share",
     "tests that reach the time limit; as in `cobalt plan` without a file"),
    ("contest.distinct_share", 1.0, "share",
     "of programs that must run; 1 if no two samples of a task are equal"),
    ("contest.skipped_tasks", 0.2, "share",
     _UNMEASURED + "; tasks whose samples all pass at once give no context"),
    ("contest.kept_trajectories", 2.0, "trajectories", _UNMEASURED + "; per task left, at most 4"),
    ("contest.slices", 2.5, "contexts", _UNMEASURED + "; per kept trajectory, 1 to 3"),
    ("contest.stored_groups", 1.5, "groups", _UNMEASURED + "; of four, right and wrong, per task"),
    ("contest.submitted_groups", 16_212, "groups",
     "of CodeNet: four of each of its 4,053 problems, so an upper bound"),
    ("contest.program_tokens", 250, "tokens", _UNMEASURED + "; a submission of people"),
    ("contest.turn_errors", 0.05, "share", _UNMEASURED + "; programs that accept a wrong test"),
    ("tiny.tests", 9, "tests", "of a task of the tiny family"),
    ("tiny.public_tests", 3, "tests", "of a task of the tiny family"),
    ("tiny.statement_tokens", 19, "tokens, median", "counted in a run of the demo (docs/planning.md)"),
    ("tiny.statement_sigma", 0.1, "of the logarithm", "of the tiny family"),
    ("tiny.feedback_tokens", 22, "tokens, median", "counted in a run of the demo (docs/planning.md)"),
    ("tiny.feedback_sigma", 0.2, "of the logarithm", "of the tiny family"),
    ("tiny.characters_per_token", 4, "characters", "the tiny model's own vocabulary of 313 words"),
    ("tiny.test_bytes", 30, "bytes", "a line in, a line out"),
    ("tiny.verdict_bytes", 250, "bytes", "a stored verdict with its feedback"),
    ("tiny.test_ms", 0.1, "ms of CPU, median", "a few lines; all else is the sandbox's own cost"),
    ("tiny.test_sigma", 0.5, "of the logarithm", "as for contest tasks"),
    ("tiny.slow_share", 0.0, "share", "no program of the family loops"),
    ("tiny.distinct_share", 0.33, "share", "counted in a run of the demo: 13,050 of 39,600 tests ran"),
    ("tiny.skipped_tasks", 0.013, "share", "counted in a run of the demo: 2 of 150"),
    ("tiny.kept_trajectories", 2.16, "trajectories", "counted in a run of the demo: 319 of 148 tasks"),
    ("tiny.slices", 2.5, "contexts", "counted in a run of the demo: 797 of 319 trajectories"),
    ("tiny.stored_groups", 1, "groups", _UNMEASURED),
    ("tiny.program_tokens", 17, "tokens", "a program of four lines in the tiny model's vocabulary"),
    ("tiny.turn_errors", 0.05, "share", _UNMEASURED),
    # Responses.
    ("thinking.response_tokens", 2500, "tokens, median", _UNMEASURED + "; 7 % are then cut at 6,144"),
    ("thinking.response_sigma", 0.6, "of the logarithm", "as in `cobalt plan` without a file"),
    ("thinking.answer_tokens", 500, "tokens, median", "what follows </think>: a program and a few sentences"),
    ("thinking.answer_sigma", 0.5, "of the logarithm", _UNMEASURED),
    ("thinking.answer_characters", 6000, "characters", "a message is cut there, as published"),
    ("plain.response_tokens", 600, "tokens, median", _UNMEASURED + "; steps in words and one program"),
    ("plain.response_sigma", 0.5, "of the logarithm", _UNMEASURED),
    ("tiny.response_tokens", 19.4, "tokens, median", "counted in a run of the demo (docs/planning.md)"),
    ("tiny.response_sigma", 0.11, "of the logarithm", "counted in a run of the demo (docs/planning.md)"),
    # Running programs.
    ("tests.overhead_ms", 1.73, "ms of CPU",
     "sandbox at `namespaces`, `python benchmarks/evaluator.py` (docs/benchmarks.md)"),
    ("tests.limit_s", 4, "s of CPU", "limit of one test, as published"),
    ("evaluator.cores_per_gpu", 4, "cores", "a quarter of 16 cores per GPU, as scripts/cluster gives it"),
    ("evaluator.cpu_profile_cores", 2, "cores", "a laptop's; they also sample and train"),
    ("evaluator.memory_gib", 1, "GiB", "per core: address space that one program may use"),
    # Sampling.
    ("sampling.bandwidth_share", 0.6, "share",
     "of the data sheet's memory bandwidth that decoding reaches; not measured"),
    ("sampling.prefill_share", 0.5, "share", "of peak operations that reading prompts reaches; not measured"),
    ("sampling.step_ms", 3, "ms", "per decoding step whatever the batch: launches, scheduling; not measured"),
    ("sampling.memory_share", 0.9, "share", "of the GPU's memory given to vLLM where it is alone"),
    ("sampling.training_memory_share", 0.7, "share", "the same beside the trainer, as published"),
    ("sampling.reserve_gb", 3, "GB", "per GPU: activations, graphs, sampler; not measured"),
    ("sampling.sequences", 256, "sequences",
     "that one replica decodes at once at most; a common limit of vLLM"),
    ("sampling.cached_share", 0.5, "share",
     "of a dialogue's earlier tokens found in the prefix cache; not measured"),
    ("sampling.weight_bytes", 2, "bytes", "bf16 weights and cache"),
    ("sampling.measured_tokens_per_s", 0, "tokens/s", "per replica; 0: worked out. `--bench` sets it"),
    ("sampling.start_s", 120, "s", "loading weights and warming up, per stage; not measured"),
    ("sampling.cpu_tokens_per_s", 1500, "tokens/s",
     "tiny model on two idle cores; the demo's repair: 47,000 in 26 s"),
    ("sampling.cpu_start_s", 4, "s", "loading the tiny model"),
    # Training.
    ("training.mfu", 0.35, "share", "of peak operations in updates, fully sharded, packed; not measured"),
    ("training.forward_mfu", 0.45, "share",
     "of peak operations in forward passes for log-probabilities; not measured"),
    ("training.cpu_mfu", 0.45, "share", "of peak operations in the CPU profile; from the demo's CPU seconds"),
    ("training.offload_bytes", 24, "bytes",
     "Adam's state to the GPU and back, per parameter and optimiser step"),
    ("training.pcie_gb_s", 20, "GB/s", "between host and GPU; not measured"),
    ("training.step_s", 20, "s", "per step: weights to the sampler, waking, logging; not measured"),
    ("training.offline_step_s", 1, "s", "per step offline: logging, tokens to the device; not measured"),
    ("training.cpu_step_s", 0.3, "s", "the same in the CPU profile"),
    ("training.start_s", 240, "s", "start of Ray, trainer and sampler; not measured"),
    ("training.cpu_start_s", 45, "s", "the same in the CPU profile, as the demo shows it"),
    # Files and the parts that are one process.
    ("disk.json_overhead", 1.1, "times", "JSON's quotes, keys and escapes; not measured"),
    ("disk.adapters", 0.02, "of the weights", "adapters of rank 32 and their moments; not measured"),
    ("disk.parquet_copies", 2.5, "times", "a row has the conversation three times and the tests twice"),
    ("disk.parquet_share", 0.35, "share", "of the JSONL's size; columns are compressed"),
    ("disk.checkpoint_bytes", 12, "bytes", "per parameter: fp32 weights, Adam's two moments"),
    ("disk.export_bytes", 2, "bytes", "per parameter: the bf16 export beside each checkpoint"),
    ("disk.volume_gb", 4000, "GB", "one NVMe volume, for the table of what saturates"),
    ("contexts.ms", 4.1, "ms", "per trajectory, one process: 13.0 s for 3,200 (docs/benchmarks.md)"),
    ("contexts.bytes_per_s", 5e6, "bytes/s",
     "Parquet of 588 MiB in 111 s on a crowded machine (docs/benchmarks.md)"),
    ("report.ms", 0.25, "ms", "per program: 6.2 s of CPU for 25,200 (docs/benchmarks.md)"),
    # Prices.
    ("price.cpu_core_h", 0.04, "USD", "per core and hour; " + _RENT),
    ("price.disk_gb_month", 0.08, "USD", "per GB and month; " + _RENT),
    ("price.disk_months", 1, "months", "that files are kept"),
    ("price.prompt", 0.25, "USD/M tokens", "a provider's model: gpt-5-mini in LiteLLM's table"),
    ("price.completion", 2.0, "USD/M tokens", "a provider's model: gpt-5-mini in LiteLLM's table"),
    ("price.judge_prompt", 2.0, "USD/M tokens", "the judge: gpt-4.1 in LiteLLM's table"),
    ("price.judge_completion", 8.0, "USD/M tokens", "the judge: gpt-4.1 in LiteLLM's table"),
    ("provider.tokens_per_s", 60, "tokens/s", "of one answer of a provider's model; not measured"),
    ("judge.prompt_tokens", 3000, "tokens", _UNMEASURED + "; problem, two programs, feedback, patch"),
    ("judge.completion_tokens", 600, "tokens", _UNMEASURED + "; low effort"),
]  # fmt: skip

# kind: peak bf16 TFLOP/s without sparsity, GB/s, GB of memory (10^9 bytes), USD per hour
_DEVICES = {
    "rtx4090": (165, 1008, 25.7, 0.5),
    "l40s": (362, 864, 48.3, 1.0),
    "a100-80": (312, 2039, 85.9, 1.5),
    "h100-80": (989, 3350, 85.5, 2.5),
    "h200": (989, 4800, 150.7, 3.5),
}
_CPU = (0.1, 20, 16, 0)
GPUS = tuple(_DEVICES)
LESS_THAN_ONE = ("share", "mfu")  # names that end so are in [0, 1]


def _table() -> dict[str, Assumption]:
    rows = [Assumption(*row, low=1e-9 if _positive(row[0]) else 0.0) for row in _ROWS]
    for kind, (tflops, bandwidth, memory, price) in [*_DEVICES.items(), ("cpu", _CPU)]:
        spec = "two cores of a server, fp32; not measured" if kind == "cpu" else _SPEC
        rows += [
            Assumption(f"gpu.{kind}.tflops", tflops, "TFLOP/s, bf16, dense", spec, 1e-9),
            Assumption(f"gpu.{kind}.bandwidth_gb_s", bandwidth, "GB/s", spec, 1e-9),
            Assumption(f"gpu.{kind}.memory_gb", memory, "GB (10^9 bytes)", spec, 1e-9),
            Assumption(f"gpu.{kind}.price_h", price, "USD per hour", _RENT if price else "your own machine"),
        ]
    return {row.name: row for row in rows}


def _positive(name: str) -> bool:
    """Numbers that are divided by, or whose logarithm is taken."""
    return name.endswith(
        ("sigma", "_tokens", "characters_per_token", "tests", "tasks", "test_ms", "bandwidth_share", "mfu",
         "prefill_share", "memory_share", "weight_bytes", "pcie_gb_s", "sequences", "bytes_per_s",
         "volume_gb", "cores", "cores_per_gpu", "provider.tokens_per_s", "cpu_tokens_per_s",
         "answer_characters")
    )  # fmt: skip


@dataclass
class Assumptions:
    """All assumptions; ``assumptions[name]`` is a value and notes that it was used."""

    rows: dict[str, Assumption] = field(default_factory=_table)
    used: dict[str, Assumption] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        row = self.rows[name]
        self.used[name] = row
        return row.value

    def replaced(self, values: Mapping[str, float], source: str) -> Assumptions:
        """A copy with other values. Raises InputError for an unknown name or a value out of range."""
        rows = dict(self.rows)
        for name, value in values.items():
            if name not in rows:
                near = difflib.get_close_matches(name, rows, n=1, cutoff=0.5)
                advice = f"; did you mean '{near[0]}'?" if near else ""
                raise InputError(
                    f"there is no assumption '{name}'{advice} (cobalt plan --list_assumptions shows all)"
                )
            row = rows[name]
            if not math.isfinite(value) or value < row.low:
                least = "above 0" if row.low else "at least 0"
                raise InputError(f"{source}: '{name}' must be {least}, got {value:g} (unit: {row.unit})")
            if name.rpartition(".")[2].endswith(LESS_THAN_ONE) and value > 1:
                raise InputError(f"{source}: '{name}' is a share and must be at most 1, got {value:g}")
            rows[name] = replace(row, default=value, source=source)
        return Assumptions(rows)

    def fresh(self) -> Assumptions:
        """The same values, none of them noted as used."""
        return Assumptions(self.rows)


def parse(texts: list[str]) -> dict[str, float]:
    """Values of ``--assume name=value``. Raises InputError for other texts."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise ValueError
            values[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"--assume {text!r}: give NAME=NUMBER, as in training.mfu=0.4") from None
    return values


def markdown() -> str:
    """The table of docs/planning.md."""
    lines = ["| assumption | default | unit | reason |", "|---|---|---|---|"]
    for row in _table().values():
        lines.append(f"| `{row.name}` | {row.default:,g} | {row.unit} | {row.reason} |")
    return "\n".join(lines)


def listing(assumptions: Assumptions) -> str:
    """All assumptions as text."""
    return "\n".join(
        f"{row.name} = {row.value:g} {row.unit}  ({row.reason if row.source == 'default' else row.source})"
        for row in assumptions.rows.values()
    )
