"""Expands the compact trajectories of ``contexts.json`` to rows as the hidden-test stage writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = json.loads((Path(__file__).parent / "contexts.json").read_text())
BARE = "The code has passed all public test cases . Look for edge cases."  # as older files have it
PASSED = f"Here is the execution feedback:\n{BARE}"
FAILED = "Here is the execution feedback:\nInput:"
N_TESTS = 8


def row(task: dict[str, Any]) -> dict[str, Any]:
    """An evaluated row: 8 tests, of which ``public`` (default 4) are public."""
    public, hidden = zip(*task["samples"], strict=True)
    tests = {"inputs": [f"{i}\n" for i in range(N_TESTS)], "outputs": ["x\n"] * N_TESTS}
    n_public = task.get("public", 4)
    return {
        "id": task["id"],
        "difficulty": "EASY",
        "test_cases": json.dumps(tests),
        "public_test_cases": json.dumps({name: values[:n_public] for name, values in tests.items()}),
        "hidden_test_cases": json.dumps({name: values[n_public:] for name, values in tests.items()}),
        "exec_results": [{"passing": p, "feedback": [""] * len(p)} for p in task.get("single", [[False]])],
        "conversations": [conversation(task, s) for s in range(len(public))],
        "public_pass_rates": [list(turn) for turn in zip(*public, strict=True)],
        "all_pass_rates": [list(sample) for sample in hidden],
        "note": "keys nobody knows are no obstacle",
    }


def conversation(task: dict[str, Any], s: int) -> list[dict[str, str]]:
    """Single-word messages that tell where they come from, except feedback and those with a stated length."""
    words = {(sample, m): n for sample, m, n in task.get("words", [])}
    texts = ["system", task.get("statement", f"{task['id']}")]
    for t, rate in enumerate(task["samples"][s][0]):
        texts += [f"{task['id']}/{s}/{t}", PASSED if rate == 1 else FAILED]
    messages = []
    for m, text in enumerate(texts):
        role = "system" if m == 0 else "user" if m % 2 else "assistant"
        if (s, m) in words:
            text = " ".join(["word"] * words[s, m])
        messages.append({"role": role, "content": text})
    return messages


def rows() -> list[dict[str, Any]]:
    return [row(task) for task in GOLDEN["tasks"]]


def expected(name: str) -> list[dict[str, Any]]:
    """The contexts in the order before the shuffle; ``train_fixed`` lists what differs from ``train``."""
    table = GOLDEN["train"] | GOLDEN[name] if name == "train_fixed" else GOLDEN[name]
    contexts = []
    for task in GOLDEN["tasks"]:
        for sample, messages, prev_best in table.get(str(task["id"]), []):
            contexts.append(
                {
                    "example_id": task["id"],
                    "conversation": conversation(task, sample or 0)[:messages],
                    "test_cases": row(task)["test_cases"],
                    "difficulty": "EASY",
                    "prev_best_pass_rate": float(prev_best),
                }
            )
    return contexts


class WordTokenizer:
    """Counts words, and four for the generation header. Refuses any other call than the right one."""

    name_or_path = "words"

    def apply_chat_template(self, messages: list[dict[str, str]], **kw: Any) -> list[int]:
        assert kw == {"add_generation_prompt": True, "return_dict": False}
        return [0] * (4 + sum(len(message["content"].split()) for message in messages))
