"""Trainings by TRL's GRPOTrainer with our reward, for test_trl.py: cases in, what was seen out, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from cobalt.integrations.trl import code_reward, overlapped, prompts
from cobalt.rows import read_rows


def rows(tasks: str, form: str, tokenizer: Any) -> list[dict[str, Any]]:
    """The dataset: messages and ids, or plain prompts, the task's own columns, and a best rate."""
    asked = prompts(tasks, "tiny")
    if form == "ids":
        return asked
    texts = [tokenizer.apply_chat_template(each["prompt"], tokenize=False, add_generation_prompt=True)
             for each in asked]  # fmt: skip
    kept = [{"test_cases": row["test_cases"], "prev_best_pass_rate": 0.25} for _, row in read_rows(tasks)]
    return [{"prompt": text, **columns} for text, columns in zip(texts, kept, strict=True)]


def train(model: str, tasks: str, case: dict[str, Any], output: str) -> dict[str, Any]:
    policy, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    seen: list[Any] = []
    reward = code_reward(tasks if case["form"] == "ids" else None, profile="plain", **case["named"])
    judge = reward.args[0]
    score, verdict = judge.scorer.score, judge.scorer.verdict

    async def recorded(text: str, tests: Any, **named: Any) -> Any:
        made = await score(text, tests, **named)
        seen.append([text, tests.to_mapping(), named["best"], None if made.masked else made.reward])
        return made

    async def failing(code: Any, tests: Any) -> Any:
        made = await verdict(code, tests)
        return (None, 2) if len(seen) % case["fault_every"] == 0 else made

    judge.scorer.score = recorded
    if case.get("fault_every"):
        judge.scorer.verdict = failing
    config = GRPOConfig(
        output_dir=output, per_device_train_batch_size=16, num_generations=4, max_completion_length=48,
        max_steps=case["steps"], logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, learning_rate=1e-3, seed=0,
    )  # fmt: skip
    others = [lambda prompts, **_: [0.5] * len(prompts)] if case.get("beside") else []
    trainer = GRPOTrainer(
        model=policy, reward_funcs=[reward, *others], args=config, processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows(tasks, case["form"], tokenizer)),
    )  # fmt: skip
    before = [each.detach().clone() for each in policy.parameters()]
    try:
        (overlapped(trainer) if case.get("overlapped") else trainer).train()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    changed = any(not (old == new).all() for old, new in zip(before, policy.parameters(), strict=True))
    return {"seen": seen, "changed": changed, "log": trainer.state.log_history}


if __name__ == "__main__":
    model, tasks, cases, output = sys.argv[1:]
    made = [train(model, tasks, case, output) for case in json.loads(cases)]
    print("RESULT" + json.dumps(made))
