"""Our judge as a reward function of TRL's trainers (`reward_funcs`); written against TRL 1.16.

    rows = Dataset.from_list(prompts("tasks.jsonl"))
    overlapped(GRPOTrainer(model, code_reward("tasks.jsonl"), train_dataset=rows)).train()

TRL awaits asynchronous reward functions side by side; within ours all programs of a batch are handed to the
evaluator at once, by `overlapped` while others are still being written. TRL's sign for a completion that
cannot be scored is None: its advantage is then 0, and the baseline of its group is that of the others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.integrations.judging import open_scorer, tests_of, text_of
from cobalt.prompts import load
from cobalt.rows import Row, row_id
from cobalt.tasks.sets import task_set
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.scoring import Score, batch_metrics

_NOT_COLUMNS = ("completion_ids", "environments")


def prompts(tasks: str, prompts: str = "default") -> list[Row]:
    """Rows for a `datasets.Dataset`: of each task the ``prompt``, as messages, and its ``id``.

    ``tasks``: what `cobalt eval --tasks` takes; ``prompts``: a prompt set (`cobalt.prompts.load`). Raises
    InputError, with file, line and field, for tasks that cannot be used.
    """
    wording = load(prompts)
    return [
        {"prompt": wording.messages(row["instruction"]), "id": row["id"]}
        for _, row in task_set(tasks, wording)
    ]


def code_reward(tasks: str | None = None, *, max_masked_share: float = 0.1, **named: Any) -> Any:
    """A reward function for `reward_funcs`: every completion's last program is run on its task's tests.

    Args: ``tasks`` a file or set as `cobalt eval --tasks` takes it, whose tests are found by the dataset's
    column ``id``; without it the dataset's columns hold them, as rows of tasks, contexts or verl do
    (`cobalt.integrations.judging.tests_of`). ``max_masked_share`` in [0, 1]: completions of a batch that may
    stay without verdict. ``named``: ``reward`` (``shaped``, the default, ``passed`` or your own),
    ``evaluator`` (``local``, the default, or a URL) and the other parts of
    `cobalt.integrations.judging.open_scorer`.

    What a model's program does is data. A fault of ours is tried again, then None in TRL's sense; InfraError
    is raised for more of them than ``max_masked_share``, and for the first one beside other reward functions,
    since TRL would sum their numbers as if ours were 0. Raises InputError for names and files that cannot be
    used, and in training for a dataset without tests, with id and column. Can be pickled.
    """
    return partial(cobalt_reward, Judge(tasks, max_masked_share, named))


class Judge:
    """The tasks by id, and the scorer."""

    def __init__(self, tasks: str | None, max_masked_share: float, named: Mapping[str, Any]) -> None:
        self._made_of = (tasks, max_masked_share, named)
        if not 0 <= max_masked_share <= 1:
            raise InputError(f"max_masked_share must be in [0, 1], got {max_masked_share!r}")
        self.share, self.name = max_masked_share, tasks
        found = task_set(tasks, load("default")) if tasks is not None else ()
        self.tasks = {row["id"]: {"test_cases": row["test_cases"]} for _, row in found}
        self.scorer = open_scorer(**named)

    def __reduce__(self) -> tuple[Any, ...]:
        return Judge, self._made_of  # another process has an evaluator of its own

    def tests(self, row: Row, place: int) -> tuple[TestCases, float, str]:
        """`tests_of` a row of the dataset, or of the task that it names; and where that is."""
        where = f"completion {place}" if row.get("id") is None else f"task {row['id']!r}"
        if self.name is not None:
            key = row_id(row, f"{where}: column of the dataset")
            if key not in self.tasks:
                raise InputError(f"{where}: {self.name} has no task of this id")
            row = row | self.tasks[key] | {"reward_model": None}
        return *tests_of(row, where), where

    async def score(self, row: Row, prompt: Any, completion: Any, place: int) -> Score:
        """The score of one completion; ``row``: the dataset's columns."""
        tests, best, where = self.tests(row, place)
        text, info = text_of(completion, where), dict(row.get("extra_info") or row)
        shown = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return await self.scorer.score(text, tests, best=best, messages=shown, info=info)


async def cobalt_reward(
    judge: Judge, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
) -> list[float | None]:
    """A batch's rewards; None where a completion has none (see `code_reward`)."""
    given = {k: v for k, v in columns.items() if isinstance(v, list) and k not in _NOT_COLUMNS}
    rows = [{name: values[i] for name, values in given.items()} for i in range(len(completions))]
    pairs = zip(rows, prompts, completions, strict=True)
    scores = await asyncio.gather(*(judge.score(*each, i) for i, each in enumerate(pairs)))
    lost, log = sum(each.masked for each in scores), columns.get("log_metric", lambda *_: None)
    others = len(getattr(getattr(log, "__self__", None), "reward_funcs", ())) > 1  # the trainer's
    if lost > (0 if others else math.floor(judge.share * len(scores))):
        allowed = "beside other reward functions" if others else f"max_masked_share={judge.share:g}"
        raise InfraError(f"{lost} of {len(scores)} completions have no verdict ({allowed})")
    for name, value in batch_metrics([each.info for each in scores]).items():
        log(name, value)
    return [None if each.masked else each.reward for each in scores]


def overlapped(trainer: Any) -> Any:
    """The trainer, whose programs are judged as they are finished, while others are still being written.

    For generation by transformers (vLLM gives a batch as a whole): a program is handed over when its
    completion ends; the reward function then finds its verdict, or waits for it. Raises InputError for a
    trainer without our reward function, or of a TRL that generates in another way.
    """
    if not _judges(trainer) or not hasattr(trainer, "_generate_and_score_completions"):
        raise InputError("overlapped: needs a GRPOTrainer whose reward_funcs have a code_reward")
    score, generate, rows = trainer._generate_and_score_completions, trainer.model.generate, list[Row]()

    def scored(inputs: list[Row]) -> Any:
        rows[:] = inputs
        return score(inputs)

    def generated(*args: Any, **named: Any) -> Any:
        ended, start = set[int](), named["input_ids"].shape[1]
        end = named["generation_config"].eos_token_id
        stops = {end} if isinstance(end, int) else set(end)

        def watch(ids: Any, *_: Any, **__: Any) -> Any:
            for i, token in enumerate(ids[:, -1].tolist()):
                if token in stops and i not in ended:
                    ended.add(i)
                    code = extract_code(trainer.processing_class.decode(ids[i, start:], True))
                    for judge in _judges(trainer):
                        judge.scorer.evaluator.submit(code, judge.tests(rows[i], i)[0])
            return ids.new_zeros(len(ids), dtype=bool)  # stops nothing

        return generate(*args, stopping_criteria=[watch], **named)

    trainer._generate_and_score_completions, trainer.model.generate = scored, generated
    return trainer


def _judges(trainer: Any) -> list[Judge]:
    return [each.args[0] for each in trainer.reward_funcs if getattr(each, "func", None) is cobalt_reward]
