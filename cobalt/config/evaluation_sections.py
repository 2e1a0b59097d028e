"""The sections of a configuration file about trained models: what they are evaluated on and compared with."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from pydantic.dataclasses import dataclass

from cobalt.config.sections import (
    KNOWN_KEYS,
    Address,
    Count,
    Flag,
    Perturbation,
    Several,
    Text,
    Whole,
    Word,
)


@dataclass(frozen=True, config=KNOWN_KEYS)
class EvaluationSet:
    """Tasks to evaluate on, an item of `evaluate.sets`."""

    name: Text
    """Letters, digits, `.`, `-`, `_`; names files and tables."""
    source: Text = "heldout"
    """`heldout` or `dev` (splits of `tasks`), or a file, folder or hub name."""
    kind: Literal["tasks", "livecodebench", "perturbed"] = "tasks"
    """Of the source: ready `tasks`, a `livecodebench` release, or tasks to be `perturbed` (two public tests
    exchange their outputs, unless they have already)."""
    samples: Count | None = None
    """Dialogues per task (null: as `evaluate.samples`)."""
    turns: Several | None = None
    """Programs per dialogue (null: as `evaluate.turns`)."""
    limit: Several | None = None
    """The first so many tasks (null: all)."""
    functional: Literal["stdin", "call"] = "stdin"
    """LiveCodeBench's problems that ask for a function: as programs (`stdin`, published) or called."""
    expected: Count | None = None
    """Tasks that the cost plan counts on, where it cannot count them."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Evaluate:
    """Dialogues of all models on held-out tasks, judged by hidden tests."""

    samples: Count = 2
    """Dialogues per task."""
    turns: Several = 3
    """Programs per dialogue."""
    sets: list[EvaluationSet] = field(default_factory=lambda: [EvaluationSet("heldout")])
    """What is evaluated on. The first is what `results.json`, the controls and `report.html` are about."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Perturb:
    """Dialogues of the reference and the trained model on tasks whose public tests are perturbed; null leaves
    out the stages perturb and hack_analysis.
    """

    source: Text = "dev"
    """`dev`, `heldout`, or a file, folder or hub name of ready tasks; perturbed already they stay as they
    are."""
    limit: Several | None = 40
    """The first so many tasks (null: all)."""
    samples: Count | None = None
    """Dialogues per task (null: as `evaluate.samples`)."""
    turns: Several | None = None
    """Programs per dialogue (null: as `evaluate.turns`)."""
    kind: Perturbation = "swap"
    """How public tests become wrong: two exchange their outputs (`swap`, published), an output is off by one
    (`one_off`), an input is asked for twice, with a wrong output and with the right one (`conflict`)."""
    seed: Whole = 42
    """Draws the tests that become wrong."""
    expected: Count | None = None
    """Tasks that the cost plan counts on."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Judge:
    """A model, or rules, that sort turn errors into kinds of hacking."""

    model: Text | None = None
    """Its name at the service; `syntactic` needs none."""
    engine: Literal["litellm", "openai", "vllm", "syntactic"] = "litellm"
    """What reaches it. `syntactic`: no model and no key, but rules on the syntax of small programs, see
    `cobalt/evaluation/syntactic.py`."""
    base_url: Address | None = None
    """Address of the service, up to `/v1`."""
    key_variable: Word = "OPENAI_API_KEY"
    """The environment variable that must be set ("" if the service needs none)."""
    votes: Count = 1
    """Votes per case."""
    max_cases: Count | None = None
    """The first so many cases (null: all)."""

    @property
    def key(self) -> str:
        """The variable that has to be set, "" if none."""
        return "" if self.engine == "syntactic" else self.key_variable

    @property
    def said(self) -> str:
        """Who judges."""
        return self.model or self.engine


@dataclass(frozen=True, config=KNOWN_KEYS)
class HackAnalysis:
    """Turns of the perturbed dialogues that accepted a wrong test."""

    match: Literal["faithful", "exact"] = "faithful"
    """How a wrong test is found in feedback: by substring, as published, or `exact`, by the index of the
    test."""
    judge: Judge | None = None
    """Who sorts them (null: nobody)."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Controls:
    """What must not explain the gain. Each can be switched off."""

    single_turn_training: Flag = True
    """Train on problem statements alone, for as many steps."""
    blank_feedback: Flag = True
    """The trained model with a feedback message that says nothing."""
    other_feedback: Flag = True
    """The trained model with the feedback of another task."""
    best_of_turns: Flag = True
    """The reference with as many first programs as a dialogue has turns, the best by public tests."""
