"""Our tasks and judge as an environment of verifiers (Prime Intellect), single- and multi-turn.

verifiers 0.4 finds a task set by the name of a module that exports it and lies in no package. Three lines are
enough, here in `sums.py`, for `PYTHONPATH=. vf-eval sums --env.taskset.task.tasks tasks.jsonl`:

    from cobalt.integrations.verifiers import CobaltEnv, CobaltTaskset, load_environment

    __all__ = ["CobaltEnv", "CobaltTaskset"]

Versions up to 0.3 call its `load_environment`, with the fields of `judging.Settings` as arguments. A fault of
ours is an error of the rollout in their sense, which they may repeat; it is never a reward.
"""

import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from cobalt.errors import InfraError
from cobalt.integrations.judging import Settings, TaskJudge, text_of

__all__ = ["CobaltEnv", "CobaltTaskset", "load_environment"]  # noqa: F822 - two are made when asked for


open_judge = cache(TaskJudge)  # one evaluator for all tasks of the same settings


def load_environment(**settings: Any) -> Any:
    """An environment of the installed verifiers, by the fields of `Settings`."""
    import verifiers

    if hasattr(verifiers, "MultiTurnEnv"):
        return _classic(verifiers, open_judge(Settings(**settings)))
    import verifiers.v1 as vf

    sys.modules.setdefault("cobalt_tasks", sys.modules[__name__])  # it takes no dots in a name
    made = {"id": "cobalt_tasks", "task": settings}
    return vf.load_environment(_v1()["CobaltEnvConfig"](taskset=made))


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _v1()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _v1() -> dict[str, Any]:
    """Classes of verifiers 0.4."""
    import verifiers.v1 as vf
    from pydantic import create_model

    named: dict[str, Any] = {each.name: (each.type, each.default) for each in fields(Settings)}
    Config = create_model("CobaltTaskConfig", __base__=vf.TaskConfig, **named)

    def judge_of(config: Any) -> TaskJudge:
        return open_judge(Settings(**{name: getattr(config, name) for name in named}))

    class CobaltTask(vf.Task[vf.TaskData, vf.State, Config]):
        @vf.reward
        async def cobalt(self, trace: vf.Trace) -> float:
            said = [_plain(each) for each in trace.assistant_messages] or [{"content": ""}]
            reward, measures = await judge_of(self.config).score(self.data.id, said[-1])
            trace.record_metrics(measures)
            return reward

    class CobaltTasksetConfig(vf.TasksetConfig):
        task: Config = Config()  # type: ignore[valid-type]

    class CobaltTaskset(vf.Taskset[CobaltTask, CobaltTasksetConfig]):
        def load(self) -> list[CobaltTask]:
            judge = judge_of(self.config.task)
            return [
                CobaltTask(
                    vf.TaskData(id=key, prompt=row["instruction"], system_prompt=judge.prompts.system),
                    self.config.task,
                )
                for key, row in judge.tasks.items()
            ]

    class CobaltEnvConfig(vf.EnvConfig):
        agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})

    class CobaltEnv(vf.Env[CobaltEnvConfig]):
        async def run(self, task: CobaltTask, agents: vf.Agents) -> None:
            async with agents.agent.interaction(task) as dialogue:
                said, judge = await dialogue.turn(), judge_of(task.config)
                for turn in range(judge.turns):
                    told = (
                        None if said.terminated else await judge.message(task.data.id, said.last_reply, turn)
                    )
                    if told is None:
                        return
                    said = await dialogue.turn(told)

    return {each.__name__: each for each in (CobaltTaskset, CobaltEnv, CobaltEnvConfig)}


def _classic(vf: Any, judge: TaskJudge) -> Any:
    """An environment of verifiers up to 0.3."""
    from datasets import Dataset

    async def cobalt(completion: Any, state: Any) -> float:
        said = [each for each in map(_plain, completion) if each["role"] == "assistant"]
        try:
            reward, _ = await judge.score(state["info"]["id"], said[-1] if said else {"content": ""})
        except Exception as error:  # whatever is raised here, verifiers would score 0
            state["error"], reward = vf.InfraError(f"{type(error).__name__}: {error}"), float("nan")
        return reward

    class CobaltEnv(vf.MultiTurnEnv):
        async def add_trajectory_step(self, state: Any, trajectory_step: Any) -> None:
            await super().add_trajectory_step(state, trajectory_step)
            said, key = _plain(trajectory_step["completion"][-1]), state["info"]["id"]
            text = text_of([said], f"task {key!r}")
            try:
                state["told"] = await judge.message(key, text, len(state["trajectory"]) - 1)
            except InfraError as error:
                raise vf.InfraError(str(error)) from error

        @vf.stop
        async def dialogue_over(self, state: Any) -> bool:
            return bool(state["trajectory"]) and state["told"] is None

        async def env_response(self, messages: Any, state: Any, **_: Any) -> list[dict[str, str]]:
            return [{"role": "user", "content": state["told"]}]

    rows = [
        {"prompt": judge.prompts.messages(row["instruction"]), "info": {"id": key}}
        for key, row in judge.tasks.items()
    ]
    return CobaltEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric([cobalt]), max_turns=judge.turns)


def _plain(message: Any) -> Mapping[str, Any]:
    return message if isinstance(message, Mapping) else message.model_dump()
