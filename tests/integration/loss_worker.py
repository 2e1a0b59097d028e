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

from cobalt.rewards.records import Rollout, Turn
from cobalt.training.advantages import remember
from cobalt.training.losses import columns, loss_function, turn_columns

folder, rank = Path(sys.argv[1]), os.environ["RANK"]
ranks = [torch.load(folder / f"rank_{i}.pt") for i in range(int(os.environ["WORLD_SIZE"]))]
rows = ranks[int(rank)]
size = len(rows["responses"]) * len(ranks)


def weights(worker):
    named = worker.actor.engine.module.named_parameters()
    return {name: value.detach().full_tensor().clone() for name, value in named}


def record(mask, feedback):
    """A rollout whose turns the feedback tokens are between."""
    between = torch.nonzero(feedback).flatten().tolist()
    places = [0, *between[:1], *[place + 1 for place in between[-1:]], len(mask)]
    return Rollout(1.0, tuple(Turn(1.0, (True,), *places[i : i + 2], i) for i in range(0, len(places), 2)))


masks = rows["response_mask"]
feedback = rows.pop("feedback")
keys = [f"a_{place}_0" for place in range(len(masks))]
# samples that left the batch have no record
made = zip(keys, masks, feedback, strict=True)
remember({key: record(mask, between) for key, mask, between in made if mask.any()})


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
    if config.cobalt.policy_loss is not None:
        for name, column in turn_columns(keys, masks).items():
            data[name] = column
    tokens = [int(mask.sum()) for each in ranks for mask in each["response_mask"]]
    for name, column in columns(config, tokens, len(ranks)).items():
        mine = column.view(len(ranks), -1, 1)[int(rank)]
        data[name] = torch.nested.as_nested_tensor(list(mine), layout=torch.jagged)  # as the queue gives it
    metrics = worker.update_actor(data)["metrics"]
    after = weights(worker)
    if rank == "0":
        torch.save({name: before[name] - after[name] for name in before}, case / "moved.pt")
        print(case.name, {name: value for name, value in metrics.items() if "loss" in name})
