"""The batch path: a whole generation batch in the trainer's process.

verl's own path costs a coroutine, several messages and a queue write per sample, about as much as the
sampling itself at tiny scale. Here (setting ``rollout.agent.agent_loop_manager_class``) there is one call of
the sampler, every completion goes to the evaluator the moment it is finished, and all samples enter the queue
in one write. One prompt, one completion: for multi-turn rollouts unset the setting. An error reaches the
trainer and ends the run.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData
from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from cobalt.engines.sampler import SampledRow
from cobalt.engines.seeds import derive
from cobalt.errors import InfraError
from cobalt.training.cpu.rollout import load_sampler
from cobalt.training.replay import TIMING_TAG
from cobalt.training.scoring import Score, is_validation, make_scorer

KEPT = ("uid", "data_source", "reward_model", "index", "global_steps")  # of a row, for verl's later steps


class BatchManager:
    """Takes the place of verl's AgentLoopManager: ``generate_sequences`` fills the transfer queue."""

    def __init__(self, config: Any) -> None:
        self.rollout = config.actor_rollout_ref.rollout
        self.seed = int(config.data.seed or 0)
        model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        self.tokenizer = model.tokenizer
        self.sampler, self.weights = load_sampler(
            model.local_path, self.tokenizer, self.rollout.prompt_length + self.rollout.response_length
        )
        self.scorer = make_scorer(OmegaConf.to_container(config.cobalt, resolve=True), self.tokenizer)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="cobalt-scoring", daemon=True).start()
        asyncio.run_coroutine_threadsafe(self.scorer.ready(), self.loop).result(timeout=60)

    @classmethod
    def create(cls, config: Any, **_: Any) -> BatchManager:
        """verl also passes clients for its server and reward workers, which are not used here."""
        return cls(config)

    def generate_sequences(self, prompts: Any) -> None:
        """Sample, score and store a batch. ``prompts``: TensorDict with one row per prompt."""
        rows = unstack(prompts)
        validate = bool(rows[0].get("validate", False))
        how = self.rollout.val_kwargs if validate else self.rollout
        temperature = how.temperature if how.do_sample else 0.0
        if how.top_k > 0:
            raise NotImplementedError("the batch path does not sample with top_k")
        ids = self._encode(rows)
        step = int(rows[0]["global_steps"])
        kind = "validation" if validate else "training"
        scores: dict[int, Future[Score]] = {}

        def finished(place: int, sampled: SampledRow) -> None:
            scores[place] = self._score(rows[place // how.n], sampled)

        started = time.monotonic()
        policy_step = self.weights.refresh()
        sampled = self.sampler.generate(
            ids,
            [derive(self.seed, kind, step, i) for i in range(len(rows))],
            n=how.n,
            temperature=temperature,
            top_p=how.top_p,
            max_tokens=self.rollout.response_length,
            stop_ids={self.tokenizer.eos_token_id},
            on_row=finished,
        )
        sampling_s = time.monotonic() - started
        results = [scores[place].result() for place in range(len(sampled))]
        timing = {
            "timing_s/sampling": sampling_s,
            "timing_s/reward_exposed": time.monotonic() - started - sampling_s,
        }
        self._store(rows, ids, sampled, results, how.n, policy_step, "val" if validate else "train", timing)

    def _encode(self, rows: list[dict[str, Any]]) -> list[list[int]]:
        texts = [
            self.tokenizer.apply_chat_template(
                list(row["raw_prompt"]), add_generation_prompt=True, tokenize=False
            )
            for row in rows
        ]
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        longest = max(map(len, ids))
        if longest > self.rollout.prompt_length:
            raise InfraError(
                f"a prompt of {longest} tokens passed the filter for {self.rollout.prompt_length}"
            )
        return ids

    def _score(self, row: dict[str, Any], sampled: SampledRow) -> Future[Score]:
        text = self.tokenizer.decode(sampled.token_ids, skip_special_tokens=True)
        extra = row["extra_info"]
        return asyncio.run_coroutine_threadsafe(
            self.scorer.score(
                text,
                row["reward_model"]["ground_truth"],
                best=float(extra.get("prev_best_pass_rate") or 0.0),
                validation=is_validation(extra),
            ),
            self.loop,
        )

    def _store(
        self,
        rows: list[dict[str, Any]],
        ids: list[list[int]],
        sampled: list[SampledRow],
        results: list[Score],
        n: int,
        policy_step: int,
        partition: str,
        timing: dict[str, float],
    ) -> None:
        keys, fields, tags = [], [], []
        for place, (made, score) in enumerate(zip(sampled, results, strict=True)):
            row, prompt = rows[place // n], ids[place // n]
            output = AgentLoopOutput(
                prompt_ids=prompt,
                response_ids=made.token_ids,
                response_mask=[1] * len(made.token_ids),
                response_logprobs=made.logprobs,
                num_turns=2,
                metrics=AgentLoopMetrics(),
                reward_score=score.reward,
                extra_fields={
                    "global_steps": policy_step,
                    "turn_scores": [],
                    "tool_rewards": [],
                    "reward_extra_info": score.info,
                },
            ).as_dict()
            output.update({key: row[key] for key in KEPT}, session_id=place % n)
            output["loss_mask"] = output["response_mask"]
            output["input_ids"] = torch.cat([output["prompts"], output["responses"]])
            output["position_ids"] = torch.arange(len(output["input_ids"]))
            output["multi_modal_inputs"] = {}
            keys.append(f"{row['uid']}_{place % n}_0")
            fields.append(output)
            tags.append(
                {
                    "status": "success",
                    "prompt_len": len(prompt),
                    "response_len": len(made.token_ids),
                    "seq_len": len(output["input_ids"]),
                    "global_steps": row["global_steps"],
                    "min_global_steps": policy_step,
                    "max_global_steps": policy_step,
                }
            )
        tags[0][TIMING_TAG] = timing
        tq.kv_batch_put(
            keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id=partition
        )
        finished = [{"status": "finished"}] * len(rows)
        tq.kv_batch_put(keys=[row["uid"] for row in rows], tags=finished, partition_id=partition)


def unstack(batch: Any) -> list[dict[str, Any]]:
    """A TensorDict as one plain dictionary per row."""
    columns: dict[str, list[Any]] = {}
    for key in batch.keys():  # noqa: SIM118 (iterating a TensorDict yields rows)
        value = batch.get(key)
        if isinstance(value, torch.Tensor):
            columns[key] = list(value)
        elif isinstance(value, NonTensorData):
            columns[key] = [value.data] * len(batch)
        else:
            columns[key] = [item.data if isinstance(item, NonTensorData) else item for item in value]
    return [{key: values[i] for key, values in columns.items()} for i in range(len(batch))]
