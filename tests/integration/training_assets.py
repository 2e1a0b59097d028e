"""A model so small that a verl training takes seconds: its tokens are whole programs."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from cobalt.evaluator import LocalEvaluator

# What the tasks ask for is one more than the input: the first is right, the second on one test of four, the
# third on none. The evaluator of the tests fails on the fourth always and on the fifth once.
PROGRAMS = (
    "print(int(input()) + 1)",
    "print(5)",
    "print('?')",
    "print('broken evaluator')",
    "print('evaluator broken once')",
)
PASS_RATES = dict(zip(PROGRAMS, (1.0, 0.25, 0.0, 0.0, 0.0), strict=True))
TESTS = {"inputs": ["1\n", "2\n", "3\n", "4\n"], "outputs": ["2\n", "3\n", "4\n", "5\n"]}
SPECIAL = ["<pad>", "<|im_end|>", "<|im_start|>"]


def make_model(folder: Path, *, head_dim: int = 8, positions: int = 64, other: str = r"[\s\S]") -> Path:
    """A random Qwen3 that writes one or two tokens, and its tokenizer; `other`: a token of other text."""
    words = [f"```python\n{program}\n```" for program in PROGRAMS] + ["word", " ", "\n"]
    roles = ["system\n", "user\n", "assistant\n", *(f"Task {i}" for i in range(10))]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *words, *roles, "<unk>"])}
    core = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True, unk_token="<unk>"))
    pattern = r"```python\n[^`]*\n```|(system|user|assistant)\n|Task \d|word|" + other
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens(SPECIAL)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<|im_end|>", unk_token="<unk>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] + '\n' + m['content'] }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{{ 'assistant\n' }}{% endif %}"
    )
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=head_dim, max_position_embeddings=positions,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def rows(split: str, count: int, **changes: Any) -> list[dict[str, Any]]:
    """Rows as the preprocessing writes them; the previous best pass rate is 0 or 0.25."""
    made = []
    for i in range(count):
        prompt = [{"role": "user", "content": f"Task {i % 10}"}]
        if i % 2:
            prompt += [{"role": "assistant", "content": "word"}, {"role": "user", "content": "Task 0"}]
        made.append(
            {
                "data_source": "code_taco_verified",
                "prompt": prompt,
                "ability": "code",
                "reward_model": {"style": "rule", "ground_truth": json.dumps(TESTS)},
                "extra_info": {"split": split, "index": i, "prev_best_pass_rate": 0.25 * (i % 2)},
                **changes,
            }
        )
    return made


def write(path: Path, data: list[dict[str, Any]]) -> Path:
    pd.DataFrame(data).to_parquet(path)
    return path


@contextmanager
def faulty_evaluator():
    """The real evaluator behind HTTP, which answers ``infra_error`` where its ``faults`` say so."""
    faults: dict[str, int] = {"broken evaluator": 10**9}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            many = asked if isinstance(asked, list) else [asked]
            answers = [self.answer(request) for request in many]
            body = json.dumps(answers if isinstance(asked, list) else answers[0]).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def answer(self, request: dict[str, Any]) -> Any:
            for text in list(faults):
                if f"print('{text}')" == request["code"] or text == "all":
                    faults[text] -= 1
                    if faults[text] <= 0:
                        del faults[text]
                    return {"passing": [], "feedback": [], "status": "infra_error", "per_test": []}
            return local.evaluate(request["code"], request["test_cases"])

        def log_message(self, *_: Any) -> None:
            pass

    with LocalEvaluator(2) as local, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", faults
        server.shutdown()
