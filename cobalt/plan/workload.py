"""What is to be done, in plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cobalt.plan.assumptions import Model


@dataclass(frozen=True)
class Sampling:
    """One stage that samples programs and judges them.

    ``tasks`` x ``samples`` dialogues; programs are sampled in turns ``first_turn`` to ``turns`` (from 1).
    ``tests`` are run per program while sampling, ``hidden_tests`` per program of every turn afterwards.
    ``models``: how often all of it is done, once for each model. ``provider``: a paid model answers.
    ``grows``: with the training data.
    """

    name: str
    tasks: float
    samples: int
    turns: int
    max_tokens: int
    tests: float
    hidden_tests: float = 0.0
    first_turn: int = 1
    models: int = 1
    provider: bool = False
    grows: bool = False

    @property
    def dialogues(self) -> float:
        """Dialogues of all models."""
        return self.tasks * self.samples * self.models


@dataclass(frozen=True)
class Training:
    """GRPO: ``contexts`` x ``completions`` per step, each a dialogue of ``turns`` programs (1: a bandit).

    ``steps`` None: ``epochs`` over the rows. ``response_tokens``: limit of one program's completion;
    ``longest``: tokens of a whole sequence. ``tests`` per program. ``rows`` to train on, None for those of
    the contexts; ``on_statements``: they show no programs. ``passes`` for log-probabilities that are computed
    again (old, reference). ``offload``: the optimiser's state waits in the host's memory. ``offline``:
    nothing is sampled or run; ``submitted``: the stored programs are people's; ``pass_sequences``,
    ``scored_sequences``: at once on a device in updates and for log-probabilities. ``keep``: checkpoints
    kept, None for all. Validation answers ``validation_contexts`` per validation task. ``memory_share`` of a
    GPU for the sampler, None for the assumption.
    """

    name: str
    steps: float | None
    epochs: float
    contexts: int
    completions: int
    mini_batches: int
    max_prompt_tokens: int
    response_tokens: int
    longest: int
    tests: float
    rows: float | None = None
    turns: int = 1
    on_statements: bool = False
    passes: int = 2
    offload: bool = False
    lora_rank: int = 0
    offline: bool = False
    submitted: bool = False
    pass_sequences: int = 1
    scored_sequences: int = 1
    validation_tasks: float = 0.0
    validation_contexts: float = 1.0
    validate_every: int = 0
    save_every: int = 10
    keep: int | None = None
    memory_share: float | None = None


@dataclass(frozen=True)
class Workload:
    """One run. ``tasks_kind`` (contest, tiny) and ``responses`` (thinking, plain, tiny) choose assumptions.

    ``system_characters``, ``feedback_characters``: fixed texts of the first message and of a feedback
    message. ``concurrency``: completions in flight. ``context_tasks``: whose dialogues are cut into contexts.
    ``judged_cases``: turn errors that a provider's model sorts. ``tensor_parallel``: GPUs per sampler;
    ``memory_share`` of them for weights and caches, None for the assumption. ``skipped``: stages that given
    data make superfluous, and why.
    """

    name: str
    model: Model
    device: str
    gpus: int
    tasks_kind: str
    responses: str
    system_characters: int
    feedback_characters: int
    max_context: int
    concurrency: int
    sampling: tuple[Sampling, ...]
    training: tuple[Training, ...] = ()
    context_tasks: float = 0.0
    judged_cases: float = 0.0
    tensor_parallel: int = 1
    memory_share: float | None = None
    skipped: tuple[tuple[str, str], ...] = ()

    def scaled(self, factor: float) -> Workload:
        """The same with ``factor`` times the training tasks; steps grow with them, evaluation does not."""

        def more(count: float | None) -> float | None:
            return None if count is None else count * factor

        sampling = (
            replace(each, tasks=each.tasks * factor if each.grows else each.tasks) for each in self.sampling
        )
        training = (replace(each, steps=more(each.steps), rows=more(each.rows)) for each in self.training)
        return replace(
            self,
            sampling=tuple(sampling),
            training=tuple(training),
            context_tasks=self.context_tasks * factor,
        )

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"
