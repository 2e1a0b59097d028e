"""The batch path: a whole generation batch in the trainer's process.

verl's own path costs a coroutine, several messages and a queue write per sample, about as much as the
sampling itself at tiny scale. Here (setting ``rollout.agent.agent_loop_manager_class``) there is one call of
the sampler, every completion goes to the evaluator the moment it is finished, and all samples enter the queue
in one write. Dialogues (``cobalt.dialogue.turns`` > 1) go in rounds: all next responses are sampled together
while verdicts on finished ones arrive. An error reaches the trainer and ends the run.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData
from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from cobalt.engines.base import derived_seed
from cobalt.engines.sampler import SampledRow
from cobalt.errors import InfraError
from cobalt.training.cpu.rollout import load_sampler
from cobalt.training.dialogue import TURNS, Dialogue, DialogueSettings, Judge
from cobalt.training.replay import TIMING_TAG
from cobalt.training.scoring import Score, make_scorer


@dataclass(frozen=True)
class Sampling:
    """How one batch is sampled: ``n`` per prompt, at which ``step``."""

    n: int
    temperature: float
    top_p: float
    step: int
    validate: bool

    @property
    def kind(self) -> str:
        """Part of every seed."""
        return "validation" if self.validate else "training"


@dataclass(frozen=True)
class Sample:
    """One row of the queue. ``response``, ``mask`` and ``logprobs`` have one length; mask 1: the policy's."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]
    score: Score
    turns: int = 1
    judged: list[dict[str, Any]] | None = None


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
        self.dialogue = DialogueSettings.read(config)
        self.scorer = make_scorer(OmegaConf.to_container(config.cobalt, resolve=True), self.tokenizer)
        self.judge = Judge(self.scorer, self.tokenizer, self.dialogue)
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
        sampling = Sampling(how.n, temperature, how.top_p, int(rows[0]["global_steps"]), validate)
        started = time.monotonic()
        policy_step = self.weights.refresh()
        make = self._dialogues if self.dialogue.turns > 1 else self._completions
        samples, waiting_s = make(rows, sampling)
        timing = {
            "timing_s/sampling": time.monotonic() - started - waiting_s,
            "timing_s/reward_exposed": waiting_s,
        }
        self._store(rows, samples, how.n, policy_step, "val" if validate else "train", timing)

    def _completions(self, rows: list[dict[str, Any]], how: Sampling) -> tuple[list[Sample], float]:
        """One response to each prompt, ``how.n`` times, and the seconds spent waiting for verdicts only."""
        ids = self._encode(rows)
        scores: dict[int, Future[Score]] = {}

        def finished(place: int, sampled: SampledRow) -> None:
            scores[place] = self._score(rows[place // how.n], sampled)

        sampled = self.sampler.generate(
            ids,
            [derived_seed(self.seed, how.kind, how.step, i) for i in range(len(rows))],
            n=how.n,
            temperature=how.temperature,
            top_p=how.top_p,
            max_tokens=self.rollout.response_length,
            stop_ids={self.tokenizer.eos_token_id},
            on_row=finished,
        )
        done = time.monotonic()
        results = [scores[place].result() for place in range(len(sampled))]
        samples = [
            Sample(ids[place // how.n], row.token_ids, [1] * len(row.token_ids), row.logprobs, score)
            for place, (row, score) in enumerate(zip(sampled, results, strict=True))
        ]
        return samples, time.monotonic() - done

    def _dialogues(self, rows: list[dict[str, Any]], how: Sampling) -> tuple[list[Sample], float]:
        """``how.n`` dialogues on each prompt, turn by turn, and the seconds spent on verdicts only.

        In two halves: while one is judged, the other is sampled.
        """
        ids = self._encode(rows)
        dialogues = [Dialogue(ids[place // how.n]) for place in range(len(rows) * how.n)]
        middle, waiting_s = len(rows) // 2 * how.n, 0.0
        halves = [range(middle), range(middle, len(dialogues))]
        verdicts: list[list[Future[None]]] = [[], []]
        for turn in range(self.dialogue.turns):
            for half, pending in zip(halves, verdicts, strict=True):
                waiting_s += _wait(pending)
                live = [place for place in half if not dialogues[place].complete]
                if live:
                    self._turn(rows, dialogues, live, pending, how, turn)
        waiting_s += sum(map(_wait, verdicts))
        return [self._sample(dialogue, how) for dialogue in dialogues], waiting_s

    def _turn(
        self,
        rows: list[dict[str, Any]],
        dialogues: list[Dialogue],
        live: list[int],
        verdicts: list[Future[None]],
        how: Sampling,
        turn: int,
    ) -> None:
        """Sample the next response of the dialogues at ``live``; their verdicts join ``verdicts``."""

        def finished(number: int, sampled: SampledRow) -> None:
            dialogue, row = dialogues[live[number]], rows[live[number] // how.n]
            room = dialogue.room(self.dialogue)
            kept = sampled.token_ids[:room]
            text = self.tokenizer.decode(kept, skip_special_tokens=True)
            dialogue.add_response(kept, sampled.logprobs[:room], text)
            work = self.judge.after_turn(dialogue, row)
            verdicts.append(asyncio.run_coroutine_threadsafe(work, self.loop))

        self.sampler.generate(
            [dialogues[place].context for place in live],
            [derived_seed(self.seed, how.kind, how.step, *divmod(place, how.n), turn) for place in live],
            temperature=how.temperature,
            top_p=how.top_p,
            max_tokens=max(dialogues[place].room(self.dialogue) for place in live),
            stop_ids={self.tokenizer.eos_token_id},
            on_row=finished,
        )

    def _sample(self, dialogue: Dialogue, how: Sampling) -> Sample:
        score = self.judge.total(dialogue, validation=how.validate)
        return Sample(
            dialogue.prompt_ids, dialogue.response_ids, dialogue.mask, dialogue.logprobs, score,
            turns=len(dialogue.texts), judged=dialogue.turns() if self.dialogue.every_turn else None,
        )  # fmt: skip

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
        return asyncio.run_coroutine_threadsafe(self.scorer.score_row(text, row), self.loop)

    def _store(
        self,
        rows: list[dict[str, Any]],
        samples: list[Sample],
        n: int,
        policy_step: int,
        partition: str,
        timing: dict[str, float],
    ) -> None:
        keys, fields, tags = [], [], []
        for place, sample in enumerate(samples):
            row = rows[place // n]
            output = {**self._row(sample, policy_step), **{key: row[key] for key in KEPT}}
            keys.append(f"{row['uid']}_{place % n}_0")
            fields.append({**output, "session_id": place % n})
            tags.append(
                {
                    "status": "success",
                    "prompt_len": len(output["prompts"]),
                    "response_len": len(output["responses"]),
                    "seq_len": len(output["input_ids"]),
                    "global_steps": row["global_steps"],
                    "min_global_steps": policy_step,
                    "max_global_steps": policy_step,
                }
            )
        tags[0][TIMING_TAG] = timing
        data = list_of_dict_to_tensordict(fields)
        tq.kv_batch_put(keys=keys, fields=data, tags=tags, partition_id=partition)
        finished = [{"status": "finished"}] * len(rows)
        tq.kv_batch_put(keys=[row["uid"] for row in rows], tags=finished, partition_id=partition)

    def _row(self, made: Sample, policy_step: int) -> dict[str, Any]:
        """The fields of a sample in the queue, as verl's agent loops write them."""
        if not made.response:  # scored, but there is no token to train and none to hold the reward
            made = replace(made, response=[self.tokenizer.eos_token_id], mask=[0], logprobs=[0.0])
        extra = {
            "global_steps": policy_step,
            "turn_scores": [],
            "tool_rewards": [],
            "reward_extra_info": made.score.info,
        }
        output: dict[str, Any] = AgentLoopOutput(
            prompt_ids=made.prompt,
            response_ids=made.response,
            response_mask=made.mask,
            response_logprobs=made.logprobs,
            num_turns=2 * made.turns,
            metrics=AgentLoopMetrics(),
            reward_score=made.score.reward,
            extra_fields=extra if made.judged is None else extra | {TURNS: made.judged},
        ).as_dict()
        output["loss_mask"] = output["response_mask"]
        output["input_ids"] = torch.cat([output["prompts"], output["responses"]])
        output["position_ids"] = torch.arange(len(output["input_ids"]))
        output["multi_modal_inputs"] = {}
        return output


def _wait(verdicts: list[Future[None]]) -> float:
    """Wait for verdicts and empty the list; returns the seconds it took. An error among them is raised."""
    started = time.monotonic()
    while verdicts:
        verdicts.pop(0).result()
    return time.monotonic() - started


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
