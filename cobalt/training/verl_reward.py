"""The reward manager that verl 0.9.1 loads (``reward.reward_manager.source=importlib``)."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from cobalt.training.scoring import make_scorer


class CobaltReward(RewardManagerBase):
    """Awaits the evaluator for every finished sample and shapes the reward.

    Runs in verl's reward workers, one coroutine per sample, concurrently with generation. A sample that the
    evaluator gives no verdict on comes back with reward 0 and ``masked`` 1; ``LoudReplayBuffer`` takes it
    out of the batch before anything is computed from it. Settings: the configuration's section ``cobalt``.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, *_: Any, **__: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.scorer = make_scorer(OmegaConf.to_container(config.cobalt, resolve=True), tokenizer)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score the last output of a session. ``data``: verl's DataProto with one row per output."""
        item = data[-1]
        row = item.non_tensor_batch
        tokens = item.batch["responses"][: int(row["response_len"])]
        score = await self.scorer.score_row(self.tokenizer.decode(tokens, skip_special_tokens=True), row)
        return {"reward_score": score.reward, "reward_extra_info": score.info}
