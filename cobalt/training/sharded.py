"""A causal model sharded over the processes of a training (FSDP2): load, loss, save, go on, export.

Every process holds its share of weights, gradients and optimiser. The logits, which a vocabulary of 150,000
makes the largest tensor by far, exist for `CHUNK` tokens of completions at a time.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)  # fmt: skip
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from cobalt.errors import InputError
from cobalt.training.checkpoint import merged
from cobalt.training.memory import CHUNK


def join(cpu: bool, rank: int, world: int, store: str) -> torch.device:
    """Become one of the processes that find each other by a file, or the only one."""
    device = torch.device("cpu") if cpu else torch.device("cuda", rank)
    if cpu:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    else:
        torch.cuda.set_device(device)
    found = dist.FileStore(store, world)
    dist.init_process_group("gloo" if cpu else "nccl", store=found, rank=rank, world_size=world)
    return device


def token_losses(head: Any, hidden: Any, targets: Any, weights: Any) -> Any:
    """Sum of ``- w_t`` times the log-probability of each target, `CHUNK` rows of logits at a time.

    ``hidden`` [tokens, width], ``targets`` and ``weights`` [tokens]; ``head`` makes logits.
    """

    def part(hidden: Any, targets: Any, weights: Any) -> Any:
        return cross_entropy(head(hidden).float(), targets, reduction="none").mul(weights).sum()

    total = hidden.new_zeros((), dtype=torch.float32)
    for at in range(0, len(targets), CHUNK):
        rows = slice(at, at + CHUNK)
        total = total + checkpoint(part, hidden[rows], targets[rows], weights[rows], use_reentrant=False)
    return total


class Weighted(torch.nn.Module):
    """A causal model whose forward pass is the weighted loss of a batch (`cobalt.training.offline.collate`).

    Rows are padded on the right, where no real token can see, so there is no attention mask.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any, weights: Any) -> Any:
        hidden = self._hidden(ids)[:, :-1]
        kept = mask[:, 1:].bool()
        each = weights[:, None].expand(kept.shape)
        head = self.model.get_output_embeddings()
        return token_losses(head, hidden[kept], ids[:, 1:][kept], each[kept])

    def _hidden(self, ids: Any) -> Any:
        return self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state

    def check(self, ids: Any) -> None:
        """Raises InputError for a model whose logits are more than its head on its last hidden states."""
        with torch.no_grad():
            whole = self.model(input_ids=ids, use_cache=False).logits
            ours = self.model.get_output_embeddings()(self._hidden(ids))
        if not torch.allclose(whole.float(), ours.float(), rtol=1e-2, atol=1e-2):
            raise InputError(
                f"{type(self.model).__name__} changes its logits after the head (a cap or a scale), which "
                "offline recipes do not support"
            )


class Sharded:
    """A model and its optimiser in this process and its peers. ``config``: a training's, composed."""

    def __init__(self, config: Any, device: torch.device) -> None:
        given, cpu = config.actor_rollout_ref.model, device.type == "cpu"
        self.rank, self.alpha = int(given.lora_rank), int(given.lora_alpha)
        model = AutoModelForCausalLM.from_pretrained(
            given.path, dtype=torch.float32 if cpu else "auto",
            attn_implementation=given.override_config.get("attn_implementation"),
        )  # fmt: skip
        self.generation, self.plain, self.dtype = model.generation_config, model.config, model.dtype
        Weighted(model).check(torch.arange(8)[None] % model.config.get_text_config().vocab_size)
        if given.enable_gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if self.rank:
            model = _adapted(model, self.rank, self.alpha)
        alone = dict(model.named_parameters())
        self.tied = {name for name, _ in model.named_parameters(remove_duplicate=False) if name not in alone}
        policy = MixedPrecisionPolicy(
            param_dtype=None if cpu else torch.bfloat16, reduce_dtype=None if cpu else torch.float32
        )
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        self.module = Weighted(model).train()
        blocks = set(model._no_split_modules or ())
        for part in (*(m for m in model.modules() if type(m).__name__ in blocks), self.module):
            for parameter in part.parameters():
                if parameter.requires_grad and parameter.dtype != torch.float32:
                    parameter.data = parameter.data.float()  # a block at a time: the host holds little more
            fully_shard(part, mesh=mesh, mp_policy=policy)
        self.trained = [p for p in self.module.parameters() if p.requires_grad]
        optim = config.actor_rollout_ref.actor.optim
        self.optimizer = torch.optim.AdamW(
            self.trained, lr=float(optim.lr), betas=tuple(optim.betas),
            weight_decay=float(optim.weight_decay), fused=True,
        )  # fmt: skip

    def step(self, lr: float, most: float) -> float:
        """One step of the optimiser on the gradients there are, cut at the norm ``most``; returns it.

        As in verl, gradients that are not finite are thrown away.
        """
        total = torch.nn.utils.clip_grad_norm_(self.trained, most)
        norm = float(total.full_tensor() if hasattr(total, "full_tensor") else total)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def save(self, folder: Path) -> None:
        """What is trained, and the optimiser's state, each process its share."""
        dcp.save(self._state(), checkpoint_id=str(folder))

    def load(self, folder: Path) -> None:
        """Go on from such a folder, with any number of processes."""
        state = self._state()
        dcp.load(state, checkpoint_id=str(folder))
        set_state_dict(
            self.module, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"],
            options=StateDictOptions(ignore_frozen_params=True, strict=False),
        )  # fmt: skip

    def _state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(
            self.module, self.optimizer, options=StateDictOptions(ignore_frozen_params=True)
        )
        return {"model": model, "optimizer": optimizer}

    def export(self, folder: Path) -> None:
        """A Hugging Face model in the dtype it was read in, adapters put into the weights."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_model_state_dict(self.module, options=options)  # empty but on the first process
        if dist.get_rank():
            return
        state = {name.removeprefix("model."): weight for name, weight in state.items()}
        if self.rank:
            state = merged(state, self.alpha / self.rank, folder)
        state = {name: w.to(self.dtype).contiguous() for name, w in state.items() if name not in self.tied}
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(self.plain, dtype=self.dtype)
        model.generation_config = self.generation
        model.save_pretrained(folder, state_dict=state)


def _adapted(model: Any, rank: int, alpha: int) -> Any:
    """The model with adapters on all linear layers but the head; the rest is frozen."""
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, adapters).get_base_model()
