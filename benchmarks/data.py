"""Measure the commands that prepare data on generated files: processes, memory, reference programs per
second.

python benchmarks/data.py processes|memory|reference [--tasks N] [--tests N] [--mib N] [--workers N]
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from cobalt.cli import parser, positive_int
from cobalt.errors import InfraError
from cobalt.output import write_jsonl
from cobalt.rows import Row

PREPROC = Path(__file__).parents[1] / "preproc"
WORDS = [
    "read", "the", "number", "of", "rows", "and", "print", "their", "sum", "for", "each", "query", "in",
    "order", "with", "a", "sorted", "list",
]  # fmt: skip
PROGRAM = "import sys\ndata = list(map(int, sys.stdin.read().split()))\nprint(sum(data))\n"


def taco_rows(tasks: int, tests: int, input_bytes: int = 40) -> Iterator[Row]:
    """Tasks of TACO's layout: sums of whole numbers, the second stored program right."""
    rng = random.Random(0)
    count = max(1, input_bytes // 4)
    numbers = [rng.randrange(1000) for _ in range(50_000 + count)]
    texts = [str(each) for each in numbers]
    sums = [0, *accumulate(numbers)]
    for number in range(tasks):
        starts = [rng.randrange(50_000) for _ in range(tests)]
        yield {
            "id": f"t{number}",
            "question": f"Problem {number}: " + " ".join(rng.choices(WORDS, k=120)),
            "solutions": [PROGRAM + f"# {number}\n"],
            "input_output": json.dumps(
                {
                    "inputs": [" ".join(texts[start : start + count]) + "\n" for start in starts],
                    "outputs": [f"{sums[start + count] - sums[start]}\n" for start in starts],
                }
            ),
            "difficulty": "EASY",
            "source": "generated",
            "starter_code": "",
        }


def trajectory_rows(tasks: int, samples: int = 16, letters: int = 2500) -> Iterator[Row]:
    """Evaluated trajectories of three programs of which some improve."""
    rng = random.Random(0)
    tests = {"inputs": [f"{i}\n" for i in range(20)], "outputs": [f"{i}\n" for i in range(20)]}
    parts = {
        "test_cases": json.dumps(tests),
        "public_test_cases": json.dumps({name: each[:4] for name, each in tests.items()}),
    }
    text = " ".join(rng.choices([*WORDS, *PROGRAM.split()], k=100_000))
    for number in range(tasks):
        conversations = []
        for _ in range(samples):
            messages = [{"role": "system", "content": "You write programs."}]
            for turn in range(7):
                start = rng.randrange(len(text) - letters)
                role = "assistant" if turn % 2 else "user"
                messages.append({"role": role, "content": text[start : start + letters]})
            conversations.append(messages)
        hidden = [[rng.choice([0.25, 0.5, 1.0]) for _ in range(3)] for _ in range(samples)]
        yield {
            "id": number,
            "difficulty": "EASY",
            **parts,
            "exec_results": [{"passing": [False] * 20, "feedback": [""] * 20}],
            "conversations": conversations,
            "public_pass_rates": [[1.0 if row[t] == 1.0 else 0.5 for row in hidden] for t in range(3)],
            "all_pass_rates": hidden,
        }


def make_tokenizer(folder: Path, *, by_words: bool = False) -> None:
    """A byte-level BPE tokenizer of 8,000 entries, trained on the sources of this package; or one token per
    word, where lengths do not matter and time does.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if by_words:
        words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        words = Tokenizer(models.BPE())
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        words.decoder = decoders.ByteLevel()
        sources = [str(path) for path in sorted(PREPROC.parent.joinpath("cobalt").rglob("*.py"))]
        words.train(sources, trainers.BpeTrainer(vocab_size=8000, show_progress=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    tokenizer.chat_template = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    tokenizer.save_pretrained(folder)


@dataclass
class Timed:
    """Wall seconds of a door, and the memory of its process tree in MiB: at its highest, and early on."""

    wall_s: float
    peak: float
    early: float


def timed(command: list[str], folder: Path) -> Timed:
    """Run a door and look at its memory twice a second; early is the first third of the looks.

    Raises InfraError if it fails.
    """
    import psutil

    started, sizes, done = time.perf_counter(), [0.0], threading.Event()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def watch() -> None:
        while not done.wait(0.5):
            try:
                root = psutil.Process(process.pid)
                found = [each.memory_full_info().pss for each in [root, *root.children(recursive=True)]]
            except psutil.Error:
                continue
            sizes.append(sum(found) / (1 << 20))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    _, errors = process.communicate()
    wall = time.perf_counter() - started
    done.set()
    watcher.join()
    if process.returncode:
        raise InfraError(f"{command[0]} failed: {errors[-2000:]}")
    return Timed(wall, max(sizes), max(sizes[: len(sizes) // 3 + 1]))


def bench_processes(folder: Path, tasks: int) -> Iterator[str]:
    """Contexts with one and with two processes, in turns, and whether the files are the same."""
    make_tokenizer(folder / "model")
    write_jsonl(folder / "trajectories.jsonl", trajectory_rows(tasks))
    size = (folder / "trajectories.jsonl").stat().st_size >> 20
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(2):
        for workers in seconds:
            out = folder / f"contexts_{workers}.jsonl"
            door = str(PREPROC / "process_multi_turn_taco.py")
            flags = ["-i", "trajectories.jsonl", "-o", out.name, "--model_name", "model"]
            timed([door, *flags, "--workers", str(workers)], folder)
            manifest = json.loads(Path(f"{out}.manifest.json").read_text())
            seconds[workers].append(manifest["wall_s"])
    same = (folder / "contexts_1.jsonl").read_bytes() == (folder / "contexts_2.jsonl").read_bytes()
    one, two = min(seconds[1]), min(seconds[2])
    yield (
        f"contexts of {16 * tasks} trajectories ({size} MiB): 1 process {one:.1f} s, 2 processes {two:.1f} s "
        f"({one / two:.2f}x), {'same bytes' if same else 'DIFFERENT BYTES'}"
    )


def bench_memory(folder: Path, mib: int) -> Iterator[str]:
    """Memory of the commands that stream, on files of about ``mib`` MiB."""
    make_tokenizer(folder / "model", by_words=True)
    write_jsonl(folder / "taco.jsonl", taco_rows(mib * 7, 20, 8000))
    write_jsonl(folder / "trajectories.jsonl", trajectory_rows(mib * 12 + mib // 4, letters=750))
    both = "--train_data_file contexts.jsonl --val_data_file contexts.jsonl"
    runs = {
        "preproc_taco.py": "-i taco.jsonl --max_solutions 0 -o tasks.jsonl",
        "run_perturbation.py": "-i tasks.jsonl -o perturbed.jsonl",
        "process_multi_turn_taco.py": "-i trajectories.jsonl -o contexts.jsonl --model_name model",
        "verl_preproc_multi_turn.py": f"{both} --local_dir parquet",
    }
    for script, flags in runs.items():
        found = timed([str(PREPROC / script), *flags.split()], folder)
        source = next(each for each in flags.split() if each.endswith(".jsonl"))
        yield (
            f"{script}: {(folder / source).stat().st_size >> 20} MiB in {found.wall_s:.0f} s, at most "
            f"{found.peak:.0f} MiB of memory ({found.early:.0f} in the first third)"
        )


def bench_reference(folder: Path, tasks: int, tests: int, workers: int) -> Iterator[str]:
    """Tests per second and CPU per test of preproc_taco.py, from start to end, beside those of the evaluator
    alone on the same programs, in turns.
    """
    from cobalt.evaluator import LocalEvaluator
    from cobalt.testcases import TestCases

    rows = list(taco_rows(tasks, tests))
    write_jsonl(folder / "taco.jsonl", rows)
    suites = [TestCases.parse(row["input_output"]) for row in rows]

    def alone() -> None:
        with LocalEvaluator(workers) as judge:
            programs = ((row["solutions"][0], suite) for row, suite in zip(rows, suites, strict=True))
            for result in judge.evaluate_many(programs):
                if not all(result["passing"]):
                    raise InfraError(f"the evaluator judged a right program wrong: {result}")

    def door() -> None:
        flags = ["-i", "taco.jsonl", "-o", f"{len(best['door'])}.jsonl", "--evaluator", "local"]
        command = [str(PREPROC / "preproc_taco.py"), *flags, "--workers", str(workers)]
        done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise InfraError(f"preproc_taco.py failed: {done.stderr[-2000:]}")

    best: dict[str, list[tuple[float, float]]] = {"alone": [], "door": []}
    for _ in range(2):
        for name, run in (("alone", alone), ("door", door)):
            before = os.times(), time.perf_counter()
            run()
            after = os.times(), time.perf_counter()
            best[name].append((after[1] - before[1], sum(after[0][:4]) - sum(before[0][:4])))
    wall = {name: tasks * tests / min(each[0] for each in found) for name, found in best.items()}
    cpu = {name: 1000 * min(each[1] for each in found) / (tasks * tests) for name, found in best.items()}
    yield (
        f"{tasks} tasks x {tests} tests, {workers} workers: evaluator alone {wall['alone']:.0f} tests/s and "
        f"{cpu['alone']:.2f} ms of CPU per test, preproc_taco.py {wall['door']:.0f} tests/s "
        f"({wall['door'] / wall['alone']:.0%}) and {cpu['door']:.2f} ms ({cpu['alone'] / cpu['door']:.0%})"
    )


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Measure the commands that prepare data on generated files.")
    flags.add_argument("what", choices=("processes", "memory", "reference"), help="what to measure")
    flags.add_argument("--tasks", type=positive_int, default=400, help="generated tasks")
    flags.add_argument("--tests", type=positive_int, default=20, help="tests per task")
    flags.add_argument("--mib", type=positive_int, default=512, help="size of the larger generated file")
    flags.add_argument("--workers", type=positive_int, default=2, help="workers of the evaluator")
    args = flags.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="cobalt-bench-") as name:
        folder = Path(name)
        if args.what == "processes":
            lines = bench_processes(folder, args.tasks)
        elif args.what == "memory":
            lines = bench_memory(folder, args.mib)
        else:
            lines = bench_reference(folder, args.tasks, args.tests, args.workers)
        for line in lines:
            print(line, flush=True)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(main)
