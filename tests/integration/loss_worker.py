"""One rank of verl's own actor: for every case it makes one update and writes how far each weight went.

    python loss_worker.py FOLDER      with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the CPU platform set

FOLDER has ``rank_N.pt`` (rows of that rank) and folders with ``config.yaml``, which get ``moved.pt``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from omegaconf import OmegaConf
from verl.utils.tensordict_utils import get_tensordict
from verl.workers.engine_workers import ActorRolloutRefWorker

from cobalt.training.losses import columns, loss_function

folder, rank = Path(sys.argv[1]), os.environ["RANK"]
ranks = [torch.load(folder / f"rank_{i}.pt") for i in range(int(os.environ["WORLD_SIZE"]))]
rows = ranks[int(rank)]
size = len(rows["responses"]) * len(ranks)


def weights(worker):
    named = worker.actor.engine.module.named_parameters()
    return {name: value.detach().full_tensor().clone() for name, value in named}


for case in sorted(path.parent for path in folder.glob("*/config.yaml")):
    config = OmegaConf.load(case / "config.yaml")
    worker = ActorRolloutRefWorker(config.actor_rollout_ref, role="actor")
    worker.init_model()
    loss = loss_function(config)
    if loss is not None:
        worker.set_loss_fn(loss)
    before = weights(worker)
    data = get_tensordict(
        {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in rows.items()},
        {"global_batch_size": size, "mini_batch_size": size, "temperature": 1.0, "calculate_entropy": True},
    )
    tokens = [int(mask.sum()) for each in ranks for mask in each["response_mask"]]
    for name, column in columns(config, tokens, len(ranks)).items():
        data[name] = column.view(len(ranks), -1, 1)[int(rank)]
    metrics = worker.update_actor(data)["metrics"]
    after = weights(worker)
    if rank == "0":
        torch.save({name: before[name] - after[name] for name in before}, case / "moved.pt")
        print(case.name, {name: value for name, value in metrics.items() if "loss" in name})
