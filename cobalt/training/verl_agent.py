"""Rollouts in verl's own agent loops, and their rewards (GPU profile; on CPU the batch path does both)."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from omegaconf import OmegaConf
from verl.experimental.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from cobalt.engines.base import derived_seed
from cobalt.engines.turn_end import turn_end
from cobalt.rewards.records import Turn
from cobalt.training import tree
from cobalt.training.dialogue import Dialogue, DialogueSettings, Judge, recorded
from cobalt.training.scoring import Score, Scorer, is_validation, make_scorer

RECORD = "cobalt_record"  # in extra_fields of a rollout, or its reward's: a cobalt.rewards.records.Rollout
_scorers: dict[int, Scorer] = {}  # one evaluator connection per worker process, whatever the number of loops


class CobaltReward(RewardManagerBase):
    """The reward manager: awaits the evaluator for every finished sample and shapes the reward.

    Runs in verl's reward workers, one coroutine per sample, concurrently with generation. A sample that the
    evaluator gives no verdict on comes back with reward 0 and ``masked`` 1; ``LoudReplayBuffer`` takes it
    out of the batch before anything is computed from it. Settings: the configuration's section ``cobalt``.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, *_: Any, **__: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self.scorer = make_scorer(OmegaConf.to_container(config.cobalt, resolve=True), tokenizer)
        self.end = turn_end(tokenizer)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Score the last output of a session. ``data``: verl's DataProto with one row per output."""
        item = data[-1]
        row = item.non_tensor_batch
        tokens = item.batch["responses"][: int(row["response_len"])]
        written = self.tokenizer.decode(self.end.written(tokens.tolist()), skip_special_tokens=True)
        score = await self.scorer.score_row(written, row)
        info: dict[str, Any] = dict(score.info)
        if not is_validation(row["extra_info"]):
            turn = Turn(score.reward, score.passing, 0, len(tokens), int(row.get("session_id", 0)))
            info[RECORD] = asdict(recorded(score.reward, (turn,), row["extra_info"]))
        return {"reward_score": score.reward, "reward_extra_info": info}


def seeded(
    params: Mapping[str, Any], config: Any, row: Mapping[str, Any], leaf: int, turn: int
) -> dict[str, Any]:
    """``params`` with the seed of a rollout's turn where ``rollout.full_determinism`` asks for seeds.

    verl would give all requests of a server one, and with it all rollouts of a prompt the same tokens.
    """
    if not config.actor_rollout_ref.rollout.full_determinism:
        return dict(params)
    prompt = json.dumps([dict(each) for each in row["raw_prompt"]])
    kind = "validation" if row.get("validate") else "training"
    seed = derived_seed(int(config.data.seed or 0), kind, int(row["global_steps"]), prompt, leaf, turn)
    return {**params, "seed": seed}


class SingleTurnLoop(SingleTurnAgentLoop):
    """Takes the place of verl's loop ``single_turn_agent`` (verl/config/agent_loops.yaml).

    With that one an empty response stops the run: there is no token to hold its reward. And it leaves to the
    server which tokens end a response; here the template's is always among them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.end = turn_end(self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], *args: Any, **row: Any) -> AgentLoopOutput:
        params = seeded(sampling_params, self.config, row, int(row.get("session_id", 0)), 0)
        stopping = params | {"stop_token_ids": sorted(self.end.stop_ids)}
        output = await super().run(stopping, *args, **row)
        if not output.response_ids:
            _hold(output, self.tokenizer.eos_token_id)
            if not sampling_params.get("logprobs"):
                output.response_logprobs = None
        return output


class DialogueLoop(AgentLoopBase):
    """Agent loop ``cobalt_dialogue`` (verl/config/agent_loops.yaml).

    Samples a response, runs it on the public tests, appends the feedback, and so on; the mask is 1 on the
    policy's tokens only. It scores itself, so verl's reward workers have nothing to do. The rollouts of one
    prompt run in one worker, so that a tree of dialogues grows here too.
    """

    _trees: ClassVar[dict[str, list[Any]]] = {}  # prompt's uid: the task that grows it, leaves still to fetch

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = DialogueSettings.read(self.config)
        self.judge = Judge(self._scorer(), self.tokenizer, self.settings)

    def _scorer(self) -> Scorer:
        key = id(self.tokenizer)
        if key not in _scorers:
            settings: Any = OmegaConf.to_container(self.config.cobalt, resolve=True)
            _scorers[key] = make_scorer(settings, self.tokenizer)
        return _scorers[key]

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """One dialogue. ``row``: verl's fields of the prompt, and ``public_test_cases``.

        Raises InfraError in validation if a verdict is missing.
        """
        leaf, validation = int(row.get("session_id", 0)), is_validation(row["extra_info"])
        if self.settings.branches and not validation:
            dialogue, score = await self._leaf(sampling_params, row, leaf)
        else:
            dialogue = Dialogue(await self.ct_build_initial_tokens(list(row["raw_prompt"])), leaf)
            while not dialogue.complete:
                await self._turn(dialogue, sampling_params, row)
            score = self.judge.total(dialogue, validation=validation)
        return output_of(dialogue, score, row["extra_info"], self.settings, self.tokenizer.eos_token_id)

    async def _turn(self, dialogue: Dialogue, sampling_params: dict[str, Any], row: dict[str, Any]) -> None:
        """The next response, its verdict and the feedback."""
        room, turn = dialogue.room(self.settings), len(dialogue.texts)
        output = await self.server_manager.generate(
            request_id=dialogue.request,
            prompt_ids=dialogue.context,
            sampling_params={
                **seeded(sampling_params, self.config, row, dialogue.leaf, turn),
                "stop_token_ids": sorted(self.judge.end.stop_ids),
                "max_tokens": room,
            },
        )
        ids = list(output.token_ids)[:room]
        logprobs = list(output.log_probs or [0.0] * len(ids))[:room]
        text = await asyncio.to_thread(self.judge.text, ids)
        dialogue.add_response(ids, logprobs, text)
        dialogue.extra = dict(output.extra_fields or {})
        await self.judge.after_turn(dialogue, row)

    async def _leaf(
        self, sampling_params: dict[str, Any], row: dict[str, Any], leaf: int
    ) -> tuple[Dialogue, Score]:
        """Rollout ``leaf`` of the prompt's tree, which the first to come grows for all; an error is theirs
        too.
        """
        uid = str(row["uid"])
        if uid not in self._trees:
            growing = asyncio.ensure_future(self._grow(sampling_params, row))
            self._trees[uid] = [growing, math.prod(self.settings.branches)]
        entry = self._trees[uid]
        entry[1] -= 1
        if entry[1] == 0:
            del self._trees[uid]
        made: tuple[Dialogue, Score] = (await asyncio.shield(entry[0]))[leaf]
        return made

    async def _grow(
        self, sampling_params: dict[str, Any], row: dict[str, Any]
    ) -> list[tuple[Dialogue, Score]]:
        """All rollouts of a prompt."""
        below = tree.leaves_below(self.settings.branches, self.settings.turns)
        ids = await self.ct_build_initial_tokens(list(row["raw_prompt"]))
        dialogues = [Dialogue(ids, leaf) for leaf in range(math.prod(self.settings.branches))]

        async def grow(leaf: int, turn: int) -> None:
            await self._turn(dialogues[leaf], sampling_params, row)
            tree.fork(dialogues, leaf, below[turn])
            if not dialogues[leaf].complete:
                places = range(leaf, leaf + below[turn], below[turn + 1])
                await asyncio.gather(*(grow(place, turn + 1) for place in places))

        first = range(0, len(dialogues), below[0])
        await asyncio.gather(*(grow(leaf, 0) for leaf in first))
        made = [(each, self.judge.total(each, validation=False)) for each in dialogues]
        tree.in_loss_once(made)
        return made


def output_of(
    dialogue: Dialogue, score: Score, info: Mapping[str, Any], settings: DialogueSettings, end: int
) -> AgentLoopOutput:
    """What verl takes of a dialogue. ``info``: the row's extra_info; ``end``: the end token."""
    extra = {**dialogue.extra, "turn_scores": [], "tool_rewards": [], "reward_extra_info": score.info}
    extra[RECORD] = asdict(dialogue.record(score, info, settings.turns))
    made = AgentLoopOutput(
        prompt_ids=dialogue.prompt_ids,
        response_ids=dialogue.response_ids,
        response_mask=dialogue.mask,
        response_logprobs=dialogue.logprobs,
        num_turns=2 * len(dialogue.texts),
        metrics=AgentLoopMetrics(),
        reward_score=score.reward,
        extra_fields=extra,
    )
    if not made.response_ids:
        _hold(made, end)
    return made


def _hold(output: AgentLoopOutput, token: int) -> None:
    """Give an empty response one token that holds its reward and that nothing is learnt from."""
    output.response_ids, output.response_mask, output.response_logprobs = [token], [0], [0.0]
