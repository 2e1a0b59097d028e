"""The sections of a configuration file. Sizes that are left out in `train` are those of the recipe."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool
from pydantic.dataclasses import dataclass

KNOWN_KEYS = ConfigDict(extra="forbid")


def _text(value: Any) -> Any:
    """`name: 5` is the text 5."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_text)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=1)]
Several = Annotated[Whole, Field(ge=2)]
Number = Annotated[float, Field(strict=True, ge=0)]
Share = Annotated[Number, Field(le=1)]
Flag = StrictBool

SPLITS = ("train", "dev", "heldout")
TINY_TASKS = {"train": 150, "dev": 100, "heldout": 300}


@dataclass(frozen=True, config=KNOWN_KEYS)
class Tasks:
    """Where the tasks of training, development and held-out splits come from.

    `family` `tiny`: the project's own tasks, drawn, disjoint by structure; the counts say how many. `taco`:
    TACO-verified (`source`: a file or a data set of the hub), filtered, verified and split as by
    `preproc/preproc_taco.py`; there is no held-out split, `evaluate.sets` names other data. `files`: ready
    tasks (`cobalt.tasks.own` says which fields), a file, folder or hub name per split; a training task
    whose statement is also among the others is refused, or with `overlap` `drop` left out. `stored`: no tasks
    to train on but stored programs with their verdicts, a folder of CodeNet's layout or a file of stored
    groups (`source`; of a folder the first `train` problems, programs in `language`, `max_groups` of four
    each). `submissions`: as many per task of the tiny family are made up, stored likewise, and trained on.
    For `taco` and `files` `train` keeps the first so many (null: all), as does `heldout`; `dev` is the size
    of TACO's development split. `expected_train` (of `stored`: groups), `expected_dev`: for the cost plan.
    """

    family: Literal["tiny", "taco", "files", "stored"] = "tiny"
    train: Count | None = None
    dev: Count | None = None
    heldout: Several | None = None
    source: Text | None = None
    train_file: Text | None = None
    dev_file: Text | None = None
    heldout_file: Text | None = None
    submissions: Annotated[Whole, Field(ge=4)] | None = None
    language: Text = "Python"
    max_groups: Count = 4
    overlap: Literal["refuse", "drop"] = "refuse"
    max_solutions: Annotated[Whole, Field(ge=0)] = 16
    require_verified: Flag = False
    functional: Literal["stdin", "call", "drop"] = "stdin"
    public_tests: Count = 4
    split_seed: Whole = 42
    expected_train: Count | None = None
    expected_dev: Count | None = None

    def __post_init__(self) -> None:
        for name, count in TINY_TASKS.items() if self.family == "tiny" else ():
            if getattr(self, name) is None:
                object.__setattr__(self, name, count)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits there are."""
        if self.family == "stored":
            return tuple(name for name in ("dev", "heldout") if getattr(self, f"{name}_file") is not None)
        return SPLITS if self.family == "tiny" or self.heldout_file is not None else SPLITS[:2]

    @property
    def has_stored(self) -> bool:
        """Whether there are stored programs to train on, so that none are collected."""
        return self.family == "stored" or self.submissions is not None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Model:
    """The reference model: what collects the trajectories and is trained.

    `path`: a Hugging Face folder, relative to the configuration file, or a name on the hub. `engine` runs it:
    `transformers` in this process; `vllm`, `vllm serve`, started for the stages that need it
    (`execution.serving`), or a server at `base_url`; `openai`, any service at
    `base_url`; `litellm`, a provider. For the last two `served_name` is the model's name there (null: as
    `path`), and `trained_engine` (transformers or vllm) runs the trained models; elsewhere null means
    `engine`. `prompts`: `default`, `tiny` or a file, for dialogues (those of online trainings, too) and
    the judge. `max_context`: tokens of prompt and completion. `thinking`: dialogues keep what follows the
    last `</think>` only.
    """

    path: Text = "../models/tiny-reference"
    engine: Text = "transformers"
    base_url: Text | None = None
    served_name: Text | None = None
    trained_engine: Literal["transformers", "vllm"] | None = None
    prompts: Text = "tiny"
    max_context: Count = 512
    thinking: Flag = False


@dataclass(frozen=True, config=KNOWN_KEYS, kw_only=True)
class Sampling:
    """How programs are sampled everywhere but in training (whose settings are its own).

    `max_tokens` of one program's completion (left out: as the recipe's).
    """

    temperature: Number = 1.0
    top_p: Share = 1.0
    max_tokens: Count


@dataclass(frozen=True, config=KNOWN_KEYS)
class Collect:
    """Trajectories of the reference: `samples` per task, `turns` programs each, which contexts show.

    `trajectories` of the training tasks and `dev_trajectories` of the development tasks, if they are given (a
    file or folder of `eval_multi_turn.py`, or a hub name), replace the run's own for recipes on contexts.
    """

    samples: Several = 8
    turns: Several = 3
    trajectories: Text | None = None
    dev_trajectories: Text | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Contexts:
    """How trajectories become contexts.

    `policy`: stop rules of slicing, as published or corrected. `selection`: which trajectories of a task are
    cut, `max_variance` (published: at most four, of the largest variance of the range of pass rates),
    `random` (at most four) or `all` candidates. `partial`: false leaves the slices out, so that only problem
    statements are trained on. `validation` set of recipes that train on contexts: `trajectories` cuts it from
    trajectories of development tasks by the published rule (`--is_test`), `openings` are these tasks alone
    (null: trajectories on GPUs, openings on CPU, where training does not validate). A prompt longer than
    `max_prompt_tokens` is not cut further (null: as `train.max_prompt_tokens`).
    """

    policy: Literal["faithful", "fixed"] = "faithful"
    selection: Literal["max_variance", "random", "all"] = "max_variance"
    partial: Flag = True
    validation: Literal["trajectories", "openings"] | None = None
    max_prompt_tokens: Count | None = None


@dataclass(frozen=True, config=KNOWN_KEYS, kw_only=True)
class Train:
    """Training in verl by a `recipe` of `verl/config/recipe`, or a YAML file of one's own (it trains on
    contexts).

    What is left out is as the recipe says at this `profile` and `scale` (files of `verl/config`; scale null:
    tiny on CPU, published on GPUs). `steps`, or `epochs` passes over the data, of `contexts` x
    `completions`, `mini_batches` optimiser steps each. `gpus` per node (profile gpu; null: as the profile
    says). `lora_rank` 0 trains all weights. `perturbed_share`: of the training rows, recipe cobalt_ptb only.
    `overrides` are verl settings (`key=value`) appended as they are.
    """

    recipe: Text = "cobalt"
    profile: Literal["cpu", "gpu"] = "cpu"
    scale: Literal["tiny", "published"]
    reward_profile: Text
    steps: Count | None = None
    epochs: Count | None = None
    contexts: Count
    completions: Several
    mini_batches: Count
    learning_rate: Number
    max_prompt_tokens: Count
    max_response_tokens: Count
    gpus: Count | None = None
    lora_rank: Annotated[Whole, Field(ge=0)]
    lora_alpha: Count
    perturbed_share: Annotated[Number, Field(ge=0.01, le=1)] | None = None
    overrides: list[Text] = field(default_factory=list)


@dataclass(frozen=True, config=KNOWN_KEYS)
class EvaluationSet:
    """Tasks to evaluate on.

    `source`: `heldout` or `dev` (splits of `tasks`), or a file or hub name. `kind` of the source: ready
    `tasks`, a `livecodebench` release, or tasks to be `perturbed` (two public tests exchange their outputs,
    unless they have already). `samples`, `turns`: null means those of `evaluate`. `limit`: the first so many
    tasks. `expected`: for the cost plan.
    """

    name: Text
    source: Text = "heldout"
    kind: Literal["tasks", "livecodebench", "perturbed"] = "tasks"
    samples: Count | None = None
    turns: Several | None = None
    limit: Several | None = None
    functional: Literal["stdin", "call"] = "stdin"
    expected: Count | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Evaluate:
    """`samples` dialogues per task of `turns` programs, judged by hidden tests. The first of `sets` is what
    `results.json`, the controls and `report.html` are about.
    """

    samples: Count = 2
    turns: Several = 3
    sets: list[EvaluationSet] = field(default_factory=lambda: [EvaluationSet("heldout")])


@dataclass(frozen=True, config=KNOWN_KEYS)
class Perturb:
    """Dialogues of the reference and the trained model on tasks whose public tests are perturbed.

    `source`: `dev`, `heldout`, or a file or hub name of ready tasks; the first `limit` of them. `samples`
    and `turns`: null means those of `evaluate`. `seed` draws the tests that exchange their outputs; of
    tasks that are perturbed already nothing more is exchanged.
    """

    source: Text = "dev"
    limit: Several | None = 40
    samples: Count | None = None
    turns: Several | None = None
    seed: Whole = 42
    expected: Count | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Judge:
    """A model that sorts turn errors into kinds of hacking, `votes` per case; the first `max_cases` cases.

    `key_variable`: the environment variable that must be set ("" if the service needs none).
    """

    model: Text
    engine: Literal["litellm", "openai", "vllm"] = "litellm"
    base_url: Text | None = None
    key_variable: Text = "OPENAI_API_KEY"
    votes: Count = 1
    max_cases: Count | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class HackAnalysis:
    """Turns of the perturbed dialogues that accepted a wrong test; `match` as in `cobalt.evaluation`."""

    match: Literal["faithful", "exact"] = "faithful"
    judge: Judge | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Controls:
    """What must not explain the gain. Each can be switched off."""

    single_turn_training: Flag = True
    blank_feedback: Flag = True
    other_feedback: Flag = True
    best_of_turns: Flag = True


@dataclass(frozen=True, config=KNOWN_KEYS)
class Serving:
    """`vllm serve` as engine `vllm` starts it.

    `replicas` (data parallel) of `tensor_parallel` GPUs each; `eager` starts sooner and runs slower. It must
    answer within `start_s` seconds. `command` replaces it: the words of a command that serves an
    OpenAI-compatible API at `http://127.0.0.1:{port}`, where `{model}`, `{port}`, `{replicas}`,
    `{tensor_parallel}` and `{max_context}` are filled in.
    """

    replicas: Count = 1
    tensor_parallel: Count = 1
    eager: Flag = False
    gpu_memory: Annotated[Number, Field(ge=0.05, le=1)] = 0.9
    start_s: Count = 1800
    command: list[Text] | None = None


@dataclass(frozen=True, config=KNOWN_KEYS)
class Execution:
    """How the work is done; none of it changes results, so a run may continue under other values.

    `workers` that run programs (null: one per core), `isolation` level of the sandbox, `evaluator`: `local`,
    or the service as `serve`, `auto` or a URL. `concurrency`: completions in flight; `threads` of sampling.
    """

    workers: Count | None = None
    isolation: Text = "auto"
    evaluator: Text = "local"
    concurrency: Count = 256
    threads: Count = 1
    serving: Serving = field(default_factory=Serving)
