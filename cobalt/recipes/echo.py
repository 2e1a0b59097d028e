"""ECHO (arXiv 2605.24517): GRPO, and cross-entropy of the feedback that the environment answers with.

    L = L_GRPO(the policy's tokens) + weight * CE(feedback tokens)

Verified in an excerpt of the paper's text: both terms, from one forward pass, the second normalised by its
length. Their weight is 0.05 (published configuration, second-hand; others report collapse at that and 0.005
as stable). They leave fixed phrases of the harness out of the second term; here the frame of a message is
part of its feedback tokens, chat markup included, and is learnt within few steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def clipped(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, config: Any) -> Tensor:
    """PPO's clipped loss per token, [rows, tokens], with verl's bounds: ``clip_ratio_low`` and ``_high``, and
    ``clip_ratio_c`` times the advantage at most where that is negative.
    """
    ratio = (log_prob - old_log_prob).clamp(-20.0, 20.0).exp()
    inside = ratio.clamp(1 - config.clip_ratio_low, 1 + config.clip_ratio_high)
    loss = (-advantages * ratio).maximum(-advantages * inside)
    return loss.where(advantages >= 0, loss.minimum(-advantages * config.clip_ratio_c))


def policy_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    turns: Tensor,
    aggregate: Callable[[Tensor, Tensor], Tensor],
    config: Any,
    weights: Tensor | None,
    weight: float = 0.05,
) -> tuple[Tensor, dict[str, float]]:
    """The loss and ``actor/feedback_nats``, the mean cross-entropy of the feedback, in nats per token.

    All tensors [rows, tokens]; ``turns`` is negative on feedback. A row's cross-entropy is its mean over the
    row's feedback and weighs as the row's own tokens do, however rows are put into micro-batches. ``weights``
    correct for the rollout's probabilities where that is switched on.
    """
    feedback = (turns < 0).to(log_prob.dtype)
    said, heard = mask.sum(-1, keepdim=True), feedback.sum(-1, keepdim=True)
    told = -log_prob * feedback
    policy = clipped(log_prob, old_log_prob, advantages, config)
    loss = aggregate(policy if weights is None else policy * weights, mask)
    world = aggregate(told * said / heard.clamp(min=1), feedback)
    nats = float(told.sum().detach() / heard.sum().clamp(min=1))
    return loss + weight * world, {"actor/feedback_nats": nats}
