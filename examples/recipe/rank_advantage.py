"""An advantage estimator of one's own: only the order of the rewards in a group counts, not their sizes."""

import torch
from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("rank")
def rank_advantage(token_level_rewards, response_mask, index, **_):
    """Every token of a completion has the share of its group that did worse minus the share that did better.

    `token_level_rewards`, `response_mask`: [rows, tokens]; `index`: [rows], the group of each row.
    Returns advantages and returns, [rows, tokens], in (-1, 1).
    """
    rewards = token_level_rewards.sum(dim=-1)
    same = torch.tensor([[a == b for b in index] for a in index], device=rewards.device)
    order = torch.sign(rewards[:, None] - rewards[None, :]) * same
    advantages = (order.sum(dim=-1) / same.sum(dim=-1))[:, None] * response_mask
    return advantages, advantages
