"""The data doors as processes, and a small input for each."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from data_rows import lcb, many_taco, task, write
from doors import ROOT, run
from golden_contexts import expected, row
from test_codenet import programs, tree

PREPROC = ROOT / "preproc"
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "contexts.json").read_text())["tasks"]


@dataclass(frozen=True)
class Door:
    """A script with its arguments and the data files it makes."""

    script: str
    arguments: list[str]
    outputs: tuple[str, ...] = ()

    def start(self, folder, *more):
        command = [sys.executable, str(PREPROC / self.script), *self.arguments, *more]
        return subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, folder, *more, code=0):
        """Run to the end in this process; (stdout, stderr). Fails the test for another exit code."""
        done = run(PREPROC / self.script, *self.arguments, *more, cwd=folder, code=code)
        return done.stdout, done.stderr

    def content(self, folder):
        """The data files, by name."""
        return {name: (folder / name).read_bytes() for name in self.outputs}


# Renders to as many words as the golden file counts: those of the messages, and four for the header.
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}now it is yours{% endif %}"
)


def make_model(folder):
    """A tokenizer of one token per word with a chat template."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({"[UNK]": 0, "word": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[UNK]")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def prepare(name, folder, size):
    """Write the input of a door and return it; ``size`` is the number of rows."""
    if name == "taco":
        write(folder / "taco.jsonl", many_taco(size))
        return Door(
            "preproc_taco.py",
            ["-i", "taco.jsonl", "--dev_size", "5", "--evaluator", "local", "--workers", "1"],
            tuple(f"verl/data/taco_verified_filtered{part}.jsonl" for part in ("", "_train", "_dev")),
        )
    if name == "lcb":
        write(folder / "test6.jsonl", [lcb(f"q{n}", n % 3 == 0) for n in range(size)])
        return Door("preproc_lcb_test6.py", [], ("data/lcb_v6.jsonl",))
    if name == "perturbation":
        write(folder / "tasks.jsonl", [task(n) for n in range(size)])
        return Door("run_perturbation.py", ["-i", "tasks.jsonl", "-o", "ptb.jsonl"], ("ptb.jsonl",))
    if name == "contexts":
        make_model(folder / "model")
        tasks = [row(GOLDEN[n % len(GOLDEN)] | {"id": f"task {n}"}) for n in range(size)]
        write(folder / "judged.jsonl", tasks)
        arguments = ["-i", "judged.jsonl", "-o", "contexts.jsonl", "--model_name", "model"]
        return Door("process_multi_turn_taco.py", arguments, ("contexts.jsonl",))
    if name == "parquet":
        contexts = expected("train")
        write(folder / "contexts.jsonl", [contexts[n % len(contexts)] for n in range(size)])
        data = ["--train_data_file", "contexts.jsonl", "--val_data_file", "contexts.jsonl"]
        files = ("out/train.parquet", "out/test.parquet")
        return Door("verl_preproc_multi_turn.py", ["--local_dir", "out", *data], files)
    tree(folder / "net", {f"p{n:05d}": programs(6, 6) for n in range(size)})
    return Door("preproc_codenet.py", ["-i", "net", "-o", "groups.parquet"], ("groups.parquet",))
