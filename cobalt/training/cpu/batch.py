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
from dataclasses import dataclass
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from cobalt.engines.base import derived_seed
from cobalt.engines.sampler import SampledRow
from cobalt.errors import InfraError
from cobalt.training import tree
from cobalt.training.cpu.engine import load_sampler, load_weights
from cobalt.training.dialogue import Dialogue, DialogueSettings, Judge, served_context
from cobalt.training.scoring import EXPOSED, Score, make_scorer
from cobalt.training.trainer import TIMING_TAG
from cobalt.training.verl_agent import output_of


@dataclass(frozen=True)
class Sampling:
    """How one batch is sampled: ``n`` per prompt, at which ``step``, the how manieth there (``again``)."""

    n: int
    temperature: float
    top_p: float
    step: int
    validate: bool
    again: int = 0

    def seed(self, of: int, *place: int) -> int:
        """Of a prompt, or of its sample and turn, by the run's seed: no two of a training are equal."""
        kind, again = (
            "validation" if self.validate else "training",
            ("again", self.again) if self.again else (),
        )
        return derived_seed(of, kind, self.step, *place, *again)


Samples = list[tuple[Dialogue, Score]]  # each with its score
_COMPARED = 8  # dialogues of the first batch
KEPT = ("uid", "data_source", "reward_model", "index", "global_steps")  # of a row, for verl's later steps


class BatchManager:
    """Takes the place of verl's AgentLoopManager: ``generate_sequences`` fills the transfer queue."""

    def __init__(self, config: Any) -> None:
        self.rollout = config.actor_rollout_ref.rollout
        self.seed = int(config.data.seed or 0)
        self.compared = False  # training and serving rendering, once
        self.again: dict[tuple[bool, int], int] = {}  # batches of a step before this one
        model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        self.tokenizer = model.tokenizer
        self.sampler = load_sampler(
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
        step = int(rows[0]["global_steps"])
        self.again[validate, step] = again = self.again.get((validate, step), -1) + 1
        sampling = Sampling(how.n, temperature, how.top_p, step, validate, again)
        started = time.monotonic()
        policy_step = load_weights(self.sampler.model)
        make = self._dialogues if self.dialogue.turns > 1 else self._completions
        samples, waiting_s = make(rows, sampling)
        timing = {
            "timing_s/sampling": time.monotonic() - started - waiting_s,
            EXPOSED: waiting_s,
        }
        if self.dialogue.turns > 1 and not (validate or self.compared):
            timing |= self._compare([(rows[place // how.n], made) for place, (made, _) in enumerate(samples)])
            self.compared = True
        self._store(rows, samples, how.n, policy_step, "val" if validate else "train", timing)

    def _completions(self, rows: list[dict[str, Any]], how: Sampling) -> tuple[Samples, float]:
        """One response to each prompt, ``how.n`` times, and the seconds spent waiting for verdicts only.

        In two halves, as `_dialogues`: responses end at about the same time.
        """
        ids, middle = self._encode(rows), (len(rows) + 1) // 2
        scores: dict[int, Future[Score]] = {}
        sampled: list[SampledRow] = []

        def finished(place: int, made: SampledRow) -> None:
            place += len(sampled)
            work = self.scorer.score_row(self.judge.text(made.token_ids), rows[place // how.n])
            scores[place] = asyncio.run_coroutine_threadsafe(work, self.loop)

        for half in filter(None, (range(middle), range(middle, len(rows)))):
            sampled += self.sampler.generate(
                [ids[i] for i in half],
                [how.seed(self.seed, i) for i in half],
                n=how.n,
                temperature=how.temperature,
                top_p=how.top_p,
                max_tokens=self.rollout.response_length,
                stop_ids=self.judge.end.stop_ids,
                on_row=finished,
            )
        done = time.monotonic()
        results = [scores[place].result() for place in range(len(sampled))]
        samples = []
        for place, (row, score) in enumerate(zip(sampled, results, strict=True)):
            made = Dialogue(ids[place // how.n], place % how.n, scores=[score])
            made.add_response(row.token_ids, row.logprobs, "")
            samples.append((made, score))
        return samples, time.monotonic() - done

    def _dialogues(self, rows: list[dict[str, Any]], how: Sampling) -> tuple[Samples, float]:
        """``how.n`` dialogues on each prompt, turn by turn, and the seconds spent on verdicts only.

        In two halves: while one is judged, the other is sampled. In a tree a program is sampled for the first
        of the leaves below it, which it is then handed on to.
        """
        ids, branches = self._encode(rows), () if how.validate else self.dialogue.branches
        dialogues = [Dialogue(ids[place // how.n], place % how.n) for place in range(len(rows) * how.n)]
        below = tree.leaves_below(branches, self.dialogue.turns)
        middle, waiting_s = len(rows) // 2 * how.n, 0.0
        halves = [range(middle), range(middle, len(dialogues))]
        verdicts: list[list[Future[None]]] = [[], []]
        for turn in range(self.dialogue.turns):
            for half, pending in zip(halves, verdicts, strict=True):
                waiting_s += _wait(pending)
                for place in half[:: below[turn - 1]] if turn else ():
                    tree.fork(dialogues, place, below[turn - 1])
                live = [place for place in half[:: below[turn]] if not dialogues[place].complete]
                if live:
                    self._turn(rows, dialogues, live, pending, how, turn)
        waiting_s += sum(map(_wait, verdicts))
        samples = [(made, self.judge.total(made, validation=how.validate)) for made in dialogues]
        for begin in range(0, len(samples), how.n):
            tree.in_loss_once(samples[begin : begin + how.n])
        return samples, waiting_s

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
            text = self.judge.text(kept)
            dialogue.add_response(kept, sampled.logprobs[:room], text)
            work = self.judge.after_turn(dialogue, row)
            verdicts.append(asyncio.run_coroutine_threadsafe(work, self.loop))

        self.sampler.generate(
            [dialogues[place].context for place in live],
            [how.seed(self.seed, *divmod(place, how.n), turn) for place in live],
            temperature=how.temperature,
            top_p=how.top_p,
            max_tokens=max(dialogues[place].room(self.dialogue) for place in live),
            stop_ids=self.judge.end.stop_ids,
            on_row=finished,
        )

    @torch.no_grad()
    def _compare(self, made: list[tuple[dict[str, Any], Dialogue]]) -> dict[str, float]:
        """The last response in the context that it is trained in and in the one that a server renders, in
        the first `_COMPARED` dialogues of several turns: share whose tokens differ, and the mean difference
        (served minus trained) of a token's log-probability.
        """
        several = [(row, each) for row, each in made if len(each.texts) > 1 and any(each.mask)][:_COMPARED]
        gaps, differ = [], 0
        for row, each in several:
            begin = len(each.mask) - each.mask[::-1].index(0)
            trained, answer = each.prompt_ids + each.response_ids[:begin], each.response_ids[begin:]
            served = served_context(each, row["raw_prompt"], self.tokenizer)
            if answer:
                differ += served != trained
                gaps.append(self._mean_logprob(served, answer) - self._mean_logprob(trained, answer))
        if not gaps:
            return {}
        found = {"differs": differ / len(gaps), "logprob_diff": sum(gaps) / len(gaps)}
        return {f"training/served_{name}": value for name, value in found.items()}

    def _mean_logprob(self, context: list[int], answer: list[int]) -> float:
        logits = self.sampler.model(torch.tensor([context + answer])).logits[0, len(context) - 1 : -1]
        return float(logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).mean())

    def _encode(self, rows: list[dict[str, Any]]) -> list[list[int]]:
        prompts = [list(row["raw_prompt"]) for row in rows]
        texts = self.tokenizer.apply_chat_template(prompts, add_generation_prompt=True, tokenize=False)
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        longest = max(map(len, ids))
        if longest > self.rollout.prompt_length:
            raise InfraError(
                f"a prompt of {longest} tokens passed the filter for {self.rollout.prompt_length}"
            )
        return ids

    def _store(
        self,
        rows: list[dict[str, Any]],
        samples: Samples,
        n: int,
        policy_step: int,
        partition: str,
        timing: dict[str, float],
    ) -> None:
        keys, fields, tags = [], [], []
        for place, sample in enumerate(samples):
            row = rows[place // n]
            made = self._row(*sample, row["extra_info"], policy_step)
            output = {**made, **{key: row[key] for key in KEPT}}
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

    def _row(self, dialogue: Dialogue, score: Score, info: Any, policy_step: int) -> dict[str, Any]:
        """The fields of a sample in the queue, as verl's agent loops write them."""
        dialogue.extra = {"global_steps": policy_step}
        made = output_of(dialogue, score, info, self.dialogue, self.tokenizer.eos_token_id)
        output: dict[str, Any] = made.as_dict()
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
