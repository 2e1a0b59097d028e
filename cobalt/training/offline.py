"""Training on stored completions: weighted likelihood, no sampling and no execution (arXiv 2605.28409).

The loss of a group is ``- sum_i w_i log p(completion_i | prompt) / tokens``, with weights of either sign
(rloo, grpo), positive ones (exponential) or 1 (sft). The model is sharded over the devices of one node; full
weights, or adapters, which are merged into the exported model. Folders, metrics and resume are those of every
other recipe.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cobalt.engines.turn_end import turn_end
from cobalt.errors import InfraError, InputError
from cobalt.training import checkpoint, trackers
from cobalt.training.monitor import check_numbers, is_number
from cobalt.training.offline_data import Group, check_groups
from cobalt.training.process import end_with_parent

_KEPT = 2  # checkpoints
Row = tuple[list[int], list[int], float]  # prompt ids, completion ids with the end token, weight


def encode(group: Group, tokenizer: Any, max_prompt: int, max_response: int) -> list[Row] | None:
    """The completions of a group; None for too long a prompt.

    A completion over ``max_response`` tokens is cut, as the sampler would have cut it, and has no end token.
    """
    text = tokenizer.apply_chat_template(group.prompt, add_generation_prompt=True, tokenize=False)
    prompt: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(prompt) > max_prompt:
        return None
    end, rows = turn_end(tokenizer), []
    last = tokenizer.eos_token_id if end.token is None else end.token
    for completion, weight in zip(group.texts, group.weights, strict=True):
        ids = [*tokenizer(completion, add_special_tokens=False)["input_ids"], last]
        rows.append((prompt, ids[:max_response], weight))
    return rows


def collate(rows: list[Row], pad: int) -> dict[str, Any]:
    """Right-padded tensors: ``ids``, ``mask`` [rows, tokens] (1: of a completion), ``weights`` [rows]."""
    import torch

    width = max(len(prompt) + len(answer) for prompt, answer, _ in rows)
    ids = torch.full((len(rows), width), pad)
    mask = torch.zeros_like(ids)
    for i, (prompt, answer, _) in enumerate(rows):
        ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        mask[i, len(prompt) : len(prompt) + len(answer)] = 1
    weights = torch.tensor([weight for *_, weight in rows], dtype=torch.float32)
    return {"ids": ids, "mask": mask, "weights": weights}


def batches(count: int, size: int, seed: int, start: int) -> Iterator[list[int]]:
    """Endless batches of group numbers from step ``start`` (0 is the first): an order per epoch, by seed."""
    per_epoch = count // size
    for step in range(start, 10**9):
        order = list(range(count))
        random.Random(f"{seed}:{step // per_epoch}").shuffle(order)
        place = step % per_epoch * size
        yield order[place : place + size]


class OfflineTrainer:
    """Process ``rank`` of ``world``, which find each other by the file ``store``. ``config``: prepared."""

    def __init__(self, config: Any, rank: int, world: int, store: str) -> None:
        from transformers import AutoTokenizer

        from cobalt.training.sharded import Sharded, join

        self.config = config
        self.rank, self.world = rank, world
        self.device = join(config.trainer.device == "cpu", rank, world, store)
        self.tokenizer = AutoTokenizer.from_pretrained(config.actor_rollout_ref.model.path)
        self._seed(0)  # of the adapters
        self.model = Sharded(config, self.device)

    def run(self, steps: int) -> None:
        """Train up to ``steps`` steps, from the last checkpoint if there is one."""
        data, folder = self.config.data, Path(self.config.trainer.default_local_dir)
        groups = check_groups(Path(data.train_files), self.config)
        limits = int(data.max_prompt_length), int(data.max_response_length)
        encoded = [rows for rows in (encode(group, self.tokenizer, *limits) for group in groups) if rows]
        done, size = self._resume(), int(data.train_batch_size)
        tracking = None if self.rank else trackers.opened(self.config)
        stop, every = folder.parent / checkpoint.STOP_REQUEST, int(self.config.trainer.save_freq)
        for step, chosen in enumerate(batches(len(encoded), size, int(data.seed), done), start=done + 1):
            if step > steps:
                break
            metrics = self._step(step, [encoded[number] for number in chosen])
            asked = self._sum(float(stop.exists())) > 0  # all must save and leave together
            if is_number(metrics["offline/loss"]) and (step == steps or asked or step % every == 0):
                self._save(folder, step)
            if tracking is not None:
                _log(step, steps, metrics)
                tracking.log(metrics, step)
            check_numbers(step, metrics)
            if asked:
                break
        if tracking is not None:
            tracking.finish()

    def _step(self, step: int, groups: list[list[Row]]) -> dict[str, float]:
        """A batch of groups, in mini-batches; returns the means of their metrics."""
        started, actor = time.monotonic(), self.config.actor_rollout_ref.actor
        self._seed(step)  # of dropout, where a model has any
        mini, warmup = int(actor.ppo_mini_batch_size), max(0, int(actor.optim.lr_warmup_steps))
        rate = float(actor.optim.lr) * min(1.0, step / (warmup + 1))
        parts = [groups[at : at + mini] for at in range(0, len(groups), mini)]
        metrics = [self._update([row for group in part for row in group], rate) for part in parts]
        means = {name: sum(each[name] for each in metrics) / len(metrics) for name in metrics[0]}
        return {**means, "actor/lr": rate, "timing_s/step": time.monotonic() - started}

    def _seed(self, step: int) -> None:
        import torch

        torch.manual_seed(int(self.config.data.seed) * 1_000_003 + step)

    def _update(self, rows: list[Row], rate: float) -> dict[str, float]:
        """One optimiser step on ``rows``, of which this process takes its share."""
        actor = self.config.actor_rollout_ref.actor
        tokens = sum(len(answer) for _, answer, _ in rows)
        mine = rows[self.rank :: self.world]
        # equally many passes on every process, or the exchange would wait for ever
        micro = int(actor.ppo_micro_batch_size_per_gpu)
        passes = math.ceil(math.ceil(len(rows) / self.world) / micro)
        total = 0.0
        for number in range(passes):
            part = mine[number * micro : (number + 1) * micro] or [(*rows[0][:2], 0.0)]
            batch = {k: v.to(self.device) for k, v in collate(part, self._pad()).items()}
            loss = self.model.module(**batch) / tokens
            (loss * self.world).backward()  # gradients are averaged over processes
            total += float(loss.detach())
        weights = [weight for *_, weight in rows]
        return {
            "offline/loss": self._sum(total),
            "offline/weight_mean": sum(weights) / len(weights),
            "offline/weight_max": max(weights),
            "actor/grad_norm": self.model.step(rate, float(actor.grad_clip)),
            "response_length/mean": tokens / len(rows),
        }

    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if pad is None else pad)

    def _sum(self, value: float) -> float:
        """The sum over processes."""
        import torch
        import torch.distributed as dist

        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return float(total)

    def _save(self, folder: Path, step: int) -> None:
        """A complete checkpoint first, then the record that names it."""
        target = folder / f"global_step_{step}"
        if not self.rank:
            checkpoint.write_made_by(target, self.config)
        self.model.save(target / "actor" / "state")
        self.model.export(target / "actor" / "huggingface")
        if not self.rank:
            self.tokenizer.save_pretrained(target / "actor" / "huggingface")
            (folder / checkpoint.RECIPE).write_text(f"{self.config.cobalt.recipe}\n")
            (folder / checkpoint.LATEST).write_text(str(step))
            old = sorted(folder.glob("global_step_*"), key=lambda path: int(path.name.rpartition("_")[2]))
            for path in old[:-_KEPT]:
                shutil.rmtree(path, ignore_errors=True)
        self._sum(0.0)  # the others wait

    def _resume(self) -> int:
        step, folder = checkpoint.resumed(self.config)
        state = folder / "actor" / "state"
        if step and not state.is_dir():
            raise InputError(f"{folder}: no checkpoint of an offline recipe")
        if step:
            self.model.load(state)
        return step


def _log(step: int, steps: int, metrics: dict[str, float]) -> None:
    """As verl's file logger and console do."""
    data = {name: value if is_number(value) else None for name, value in metrics.items()}
    with open(os.environ["VERL_FILE_LOGGER_PATH"], "a") as file:
        file.write(json.dumps({"step": step, "data": data}) + "\n")
    shown = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    print(f"step {step}/{steps}: {shown}", flush=True)


def run(config: Any) -> None:
    """Train in this process, or in one process per device of this node."""
    devices = int(config.trainer.n_gpus_per_node)
    with tempfile.TemporaryDirectory() as folder:
        given = config, devices, f"{folder}/store"
        if devices == 1:
            _train(0, *given)
            return
        from torch import multiprocessing

        try:
            multiprocessing.spawn(_train, given, nprocs=devices)  # they end with this process
        except multiprocessing.ProcessException as error:
            raise InfraError(f"a training process: {str(error).strip().splitlines()[-1]}") from error


def _train(rank: int, config: Any, devices: int, store: str) -> None:
    if devices > 1:
        end_with_parent()
    OfflineTrainer(config, rank, devices, store).run(int(config.trainer.total_training_steps))
