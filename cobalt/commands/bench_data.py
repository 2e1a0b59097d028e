"""Measure the data doors on generated files: processes, memory, and reference programs per second."""

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
from itertools import accumulate
from pathlib import Path

from cobalt.errors import InfraError
from cobalt.flags import parser, positive_int
from cobalt.records import Row
from cobalt.store import write_jsonl

PREPROC = Path(__file__).parents[2] / "preproc"
WORDS = [
    "read",
    "the",
    "number",
    "of",
    "rows",
    "and",
    "print",
    "their",
    "sum",
    "for",
    "each",
    "query",
    "in",
    "order",
    "with",
    "a",
    "sorted",
    "list",
]
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
        sources = [str(path) for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
        words.train(sources, trainers.BpeTrainer(vocab_size=8000, show_progress=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    tokenizer.chat_template = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    tokenizer.save_pretrained(folder)


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """(wall seconds, peak MiB of the whole process tree) of a door. Raises InfraError if it fails."""
    import psutil

    started, peak, done = time.perf_counter(), 0.0, threading.Event()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            total = 0
            try:
                root = psutil.Process(process.pid)
                for each in [root, *root.children(recursive=True)]:
                    total += getattr(each.memory_full_info(), "pss", 0)
            except psutil.Error:
                continue
            peak = max(peak, total / (1 << 20))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    _, errors = process.communicate()
    wall = time.perf_counter() - started
    done.set()
    watcher.join()
    if process.returncode:
        raise InfraError(f"{command[0]} failed: {errors[-2000:]}")
    return wall, peak


def bench_processes(folder: Path, tasks: int) -> list[str]:
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
    return [
        f"contexts of {16 * tasks} trajectories ({size} MiB): 1 process {one:.1f} s, 2 processes {two:.1f} s "
        f"({one / two:.2f}x), {'same bytes' if same else 'DIFFERENT BYTES'}"
    ]


def bench_memory(folder: Path, mib: int) -> list[str]:
    """Peak memory of the streaming doors on files of about ``mib`` MiB and of a quarter of that."""
    make_tokenizer(folder / "model", by_words=True)
    lines = []
    for share in (4, 1):
        size = mib // share
        taco, trajectories = folder / "taco.jsonl", folder / "trajectories.jsonl"
        write_jsonl(taco, taco_rows(size * 7, 20, 8000))
        write_jsonl(trajectories, trajectory_rows(size * 12 + size // 4, letters=750))
        runs: list[tuple[str, Path, list[str]]] = [
            ("preproc_taco.py", taco, ["--max_solutions", "0", "-o", "tasks.jsonl"]),
            ("run_perturbation.py", folder / "tasks.jsonl", ["-o", "perturbed.jsonl"]),
            ("process_multi_turn_taco.py", trajectories, ["-o", "contexts.jsonl", "--model_name", "model"]),
        ]
        for door, source, flags in runs:
            wall, peak = timed([str(PREPROC / door), "-i", source.name, *flags], folder)
            lines.append(f"{door}: {source.stat().st_size >> 20} MiB in {wall:.0f} s, peak {peak:.0f} MiB")
        data = ["--train_data_file", "contexts.jsonl", "--val_data_file", "contexts.jsonl"]
        flags = ["--local_dir", "parquet", *data]
        wall, peak = timed([str(PREPROC / "verl_preproc_multi_turn.py"), *flags], folder)
        size = (folder / "contexts.jsonl").stat().st_size >> 20
        lines.append(f"verl_preproc_multi_turn.py: 2 x {size} MiB in {wall:.0f} s, peak {peak:.0f} MiB")
    return lines


def bench_reference(folder: Path, tasks: int, tests: int, workers: int) -> list[str]:
    """Tests per second of preproc_taco.py beside those of the evaluator alone, same programs, in turns."""
    from cobalt.evaluator import LocalEvaluator
    from cobalt.records import TestCases

    rows = list(taco_rows(tasks, tests))
    write_jsonl(folder / "taco.jsonl", rows)
    suites = [TestCases.parse(row["input_output"]) for row in rows]
    bare, door = [], []
    for number in range(2):
        started = time.perf_counter()
        with LocalEvaluator(workers) as judge:
            programs = ((row["solutions"][0], suite) for row, suite in zip(rows, suites, strict=True))
            for result in judge.evaluate_many(programs):
                if not all(result["passing"]):
                    raise InfraError(f"the evaluator judged a right program wrong: {result}")
        bare.append(tasks * tests / (time.perf_counter() - started))
        flags = [
            "-i",
            "taco.jsonl",
            "-o",
            f"{number}.jsonl",
            "--evaluator",
            "local",
            "--workers",
            str(workers),
        ]
        wall, _ = timed([str(PREPROC / "preproc_taco.py"), *flags], folder)
        door.append(tasks * tests / wall)
    return [
        f"{tasks} tasks x {tests} tests, {workers} workers: evaluator alone {max(bare):.0f} tests/s, "
        f"preproc_taco.py {max(door):.0f} tests/s from start to end ({max(door) / max(bare):.0%})"
    ]


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt bench data`; returns the exit code."""
    flags = parser("Measure the data doors on generated files.")
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
        print(line)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    from cobalt.flags import run_main

    run_main(main)
