"""Training on stored completions: weighted likelihood, no sampling and no execution (arXiv 2605.28409).

The loss of a group is ``- sum_i w_i log p(completion_i | prompt) / tokens``, with weights of either sign
(rloo, grpo), positive ones (exponential) or 1 (sft). Distributed by accelerate; full weights, or LoRA through
peft, which is merged into the exported model. Folders, metrics and resume are those of every other recipe.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.training import outcome
from cobalt.training.stored import Group, check_groups

_KEPT = 2  # checkpoints


def encode(
    group: Group, tokenizer: Any, max_prompt: int, max_response: int
) -> list[tuple[list[int], list[int], float]] | None:
    """(prompt ids, completion ids with the end token, weight) of each completion; None for too long a prompt.

    A completion over ``max_response`` tokens is cut, as the sampler would have cut it, and has no end token.
    """
    text = tokenizer.apply_chat_template(group.prompt, add_generation_prompt=True, tokenize=False)
    prompt: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(prompt) > max_prompt:
        return None
    rows = []
    for completion, weight in zip(group.texts, group.weights, strict=True):
        ids = [*tokenizer(completion, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        rows.append((prompt, ids[:max_response], weight))
    return rows


def sequence_loss(logits: Any, ids: Any, mask: Any, weights: Any) -> Any:
    """Sum over rows of ``- w_i`` times the log-probability of the masked tokens.

    ``logits`` [rows, tokens, vocabulary]; ``ids``, ``mask`` [rows, tokens], mask 1 on completion tokens;
    ``weights`` [rows].
    """
    from torch.nn.functional import cross_entropy

    losses = cross_entropy(logits[:, :-1].transpose(1, 2).float(), ids[:, 1:], reduction="none")
    return (losses * mask[:, 1:]).sum(1).mul(weights).sum()


def collate(rows: list[tuple[list[int], list[int], float]], pad: int) -> dict[str, Any]:
    """Right-padded tensors: ``ids``, ``attention``, ``mask`` [rows, tokens], ``weights`` [rows]."""
    import torch

    width = max(len(prompt) + len(answer) for prompt, answer, _ in rows)
    ids = torch.full((len(rows), width), pad)
    attention, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, (prompt, answer, _) in enumerate(rows):
        ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        attention[i, : len(prompt) + len(answer)] = 1
        mask[i, len(prompt) : len(prompt) + len(answer)] = 1
    weights = torch.tensor([weight for *_, weight in rows], dtype=torch.float32)
    return {"ids": ids, "attention": attention, "mask": mask, "weights": weights}


def batches(count: int, size: int, seed: int, start: int) -> Iterator[list[int]]:
    """Endless batches of group numbers from step ``start`` (0 is the first): an order per epoch, by seed."""
    per_epoch = count // size
    for step in range(start, 10**9):
        order = list(range(count))
        random.Random(f"{seed}:{step // per_epoch}").shuffle(order)
        place = step % per_epoch * size
        yield order[place : place + size]


class OfflineTrainer:
    """One run. ``config``: the composed training configuration, prepared."""

    def __init__(self, config: Any) -> None:
        import torch
        from accelerate import Accelerator
        from accelerate.utils import set_seed
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.config, self.settings = config, config.cobalt.offline
        cpu = config.trainer.device == "cpu"
        self.accelerator = Accelerator(cpu=cpu, mixed_precision="no" if cpu else "bf16")
        set_seed(int(config.data.seed))
        if cpu:
            torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        path = config.actor_rollout_ref.model.path
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        if int(self.settings.lora_rank) > 0:
            from peft import LoraConfig, get_peft_model

            model = get_peft_model(
                model,
                LoraConfig(
                    r=int(self.settings.lora_rank),
                    lora_alpha=int(self.settings.lora_alpha),
                    target_modules="all-linear",
                    task_type="CAUSAL_LM",
                ),
            )
        if config.actor_rollout_ref.model.enable_gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.enable_input_require_grads()
        actor = config.actor_rollout_ref.actor
        optimizer = torch.optim.AdamW(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=float(actor.optim.lr),
            betas=tuple(actor.optim.betas),
            weight_decay=float(actor.optim.weight_decay),
        )
        warmup = max(0, int(actor.optim.lr_warmup_steps))
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1))
        )
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.scheduler = scheduler  # stepped once per step on every process, so it is not prepared
        self.accelerator.register_for_checkpointing(scheduler)

    def run(self, steps: int) -> None:
        """Train up to ``steps`` steps, from the last checkpoint if there is one."""
        data, actor = self.config.data, self.config.actor_rollout_ref.actor
        groups = check_groups(Path(data.train_files), self.config)
        limits = int(data.max_prompt_length), int(data.max_response_length)
        encoded = [rows for rows in (encode(group, self.tokenizer, *limits) for group in groups) if rows]
        done = self._resume()
        size, folder = int(data.train_batch_size), Path(self.config.trainer.default_local_dir)
        log = Path(os.environ["VERL_FILE_LOGGER_PATH"])
        mini = int(actor.ppo_mini_batch_size)
        stop = folder.parent / outcome.STOP_REQUEST
        for step, chosen in enumerate(batches(len(encoded), size, int(data.seed), done), start=done + 1):
            if step > steps:
                break
            started = time.monotonic()
            parts = [chosen[at : at + mini] for at in range(0, size, mini)]
            metrics = [self._update([row for number in part for row in encoded[number]]) for part in parts]
            means = {name: sum(each[name] for each in metrics) / len(metrics) for name in metrics[0]}
            self.scheduler.step()
            asked = self._agreed(stop.exists())
            if step == steps or asked or step % int(self.config.trainer.save_freq) == 0:
                self._save(folder, step)
            if self.accelerator.is_main_process:
                means["actor/lr"] = self.scheduler.get_last_lr()[0]
                means["timing_s/step"] = time.monotonic() - started
                with log.open("a") as file:
                    file.write(json.dumps({"step": step, "data": means}) + "\n")
                shown = ", ".join(f"{name} {value:.4g}" for name, value in means.items())
                print(f"step {step}/{steps}: {shown}", flush=True)
            if asked:
                break

    def _update(self, rows: list[tuple[list[int], list[int], float]]) -> dict[str, float]:
        """One optimiser step on ``rows``, of which this process takes its share."""
        actor, world = self.config.actor_rollout_ref.actor, self.accelerator.num_processes
        tokens = sum(len(answer) for _, answer, _ in rows)
        mine = rows[self.accelerator.process_index :: world]
        # equally many passes on every process, or the gradients' exchange would wait for ever
        micro = int(actor.ppo_micro_batch_size_per_gpu)
        passes = math.ceil(math.ceil(len(rows) / world) / micro)
        total = 0.0
        for number in range(passes):
            part = mine[number * micro : (number + 1) * micro] or [(*rows[0][:2], 0.0)]
            batch = {k: v.to(self.accelerator.device) for k, v in collate(part, self._pad()).items()}
            logits = self.model(input_ids=batch["ids"], attention_mask=batch["attention"]).logits
            loss = sequence_loss(logits, batch["ids"], batch["mask"], batch["weights"]) / tokens
            self.accelerator.backward(loss * world)  # gradients are averaged over processes
            total += float(loss.detach())
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), float(actor.grad_clip))
        self.optimizer.step()
        self.optimizer.zero_grad()
        weights = [weight for *_, weight in rows]
        return {
            "offline/loss": total,
            "offline/weight_mean": sum(weights) / len(weights),
            "offline/weight_max": max(weights),
            "actor/grad_norm": float(norm if norm is not None else 0.0),
            "response_length/mean": tokens / len(rows),
        }

    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _agreed(self, asked: bool) -> bool:
        """Whether any process saw the request to stop: they must save and leave together."""
        import torch

        flag = torch.tensor([int(asked)], device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum").item())

    def _save(self, folder: Path, step: int) -> None:
        """A complete checkpoint first, then the record that names it."""
        target = folder / f"global_step_{step}"
        self.accelerator.save_state(str(target / "actor" / "state"))
        if self.accelerator.is_main_process:
            model = self.accelerator.unwrap_model(self.model)
            if int(self.settings.lora_rank) > 0:
                import copy

                model = copy.deepcopy(model).merge_and_unload()
            model.save_pretrained(target / "actor" / "huggingface")
            self.tokenizer.save_pretrained(target / "actor" / "huggingface")
            (folder / outcome.LATEST).write_text(str(step))
            old = sorted(folder.glob("global_step_*"), key=lambda path: int(path.name.rpartition("_")[2]))
            for path in old[:-_KEPT]:
                shutil.rmtree(path, ignore_errors=True)
        self.accelerator.wait_for_everyone()

    def _resume(self) -> int:
        trainer = self.config.trainer
        if trainer.resume_mode == "resume_path":
            checkpoint = Path(trainer.resume_from_path)
        else:
            folder = Path(trainer.default_local_dir)
            if not outcome.checkpoint_step(folder):
                return 0
            checkpoint = outcome.latest(folder)
        step = outcome.step_of(checkpoint)
        state = checkpoint / "actor" / "state"
        if step is None or not state.is_dir():
            raise InputError(f"{checkpoint}: no checkpoint of an offline recipe")
        self.accelerator.load_state(str(state))
        return step


def run(config: Any, path: Path) -> None:
    """Train in this process, or in one process per device started by accelerate."""
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    if devices == 1:
        OfflineTrainer(config).run(int(config.trainer.total_training_steps))
        return
    import subprocess
    import sys

    cpu = ["--cpu"] if config.trainer.device == "cpu" else []
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", *cpu, "--num_processes", str(devices),
         "--num_machines", str(config.trainer.nnodes), "--dynamo_backend", "no", "--mixed_precision", "no",
         "-m", "cobalt.training.offline", str(path)],
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise InfraError(f"a training process ended with status {done.returncode}; see the log above")


def main() -> None:
    """One process of several: ``python -m cobalt.training.offline CONFIG``."""
    import sys

    from omegaconf import OmegaConf

    config: Any = OmegaConf.load(sys.argv[1])
    OfflineTrainer(config).run(int(config.trainer.total_training_steps))


if __name__ == "__main__":
    main()
