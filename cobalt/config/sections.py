"""The sections of a configuration file. Sizes that are left out in `train` are those of the recipe.

The text under a key is what it means; docs/reference/configuration.md is made from it (scripts/reference.py).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic.dataclasses import dataclass

from cobalt.tasks.tiny import TASKS

KNOWN_KEYS = ConfigDict(extra="forbid")


def _text(value: Any) -> Any:
    """`name: 5` is the text 5."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _address(value: str) -> str:
    if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname:
        raise ValueError(f"must be an address like http://localhost:8000/v1, got {value!r}")
    return value


Word = Annotated[str, BeforeValidator(_text)]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_text)]
Address = Annotated[Text, AfterValidator(_address)]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(ge=1)]
Several = Annotated[Whole, Field(ge=2)]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Share = Annotated[Number, Field(gt=0, le=1)]
Flag = StrictBool

Perturbation = Literal["swap", "one_off", "conflict"]  # the names of cobalt.tasks.perturb.KINDS

SPLITS = tuple(TASKS)


@dataclass(frozen=True, config=KNOWN_KEYS)
class Tasks:
    """Where the tasks of training, development and held-out splits come from."""

    family: Literal["tiny", "taco", "files", "stored"] = "tiny"
    """Where tasks come from. `tiny`: the project's own, drawn, disjoint by structure. `taco`: TACO-verified,
    filtered, verified and split as by `preproc/preproc_taco.py`; it has no held-out split, `evaluate.sets`
    names other data. `files`: ready tasks, a source per split. `stored`: no tasks to train on but stored
    programs with their verdicts."""
    train: Count | None = None
    """Training tasks: of `tiny` so many are drawn (null: 150), of `taco` and `files` the first so many are
    kept (null: all), of a folder of `stored` programs the first so many problems."""
    dev: Count | None = None
    """Development tasks: of `tiny` so many are drawn (null: 100), of `files` the first so many are kept
    (null: all), of `taco` it is the size of that split (null: 250)."""
    heldout: Several | None = None
    """Held-out tasks: of `tiny` so many are drawn (null: 300), of `files` the first so many are kept (null:
    all)."""
    source: Text | None = None
    """Family `taco`: a file or a data set of the hub. Family `stored`: a folder of CodeNet's layout, or a
    Parquet file of stored groups."""
    train_file: Text | None = None
    """Family `files`: training tasks, a file, folder or hub name (`owner/name[:split]`); needed are `id`,
    `question` or `instruction`, and `test_cases` or both of its parts (docs/data.md)."""
    dev_file: Text | None = None
    """Family `files`: development tasks, the same; of `stored`, to validate or evaluate on."""
    heldout_file: Text | None = None
    """Family `files`: held-out tasks, the same (null: there is no held-out split); of `stored`, to evaluate
    on."""
    version: Literal[1, 2] = 1
    """Of family `tiny`. Of version 2 each public test tells every slot that a statement leaves open, and
    programs may special-case an input."""
    submissions: Annotated[Whole, Field(ge=4)] | None = None
    """Family `tiny`: as many programs per task are made up, stored with their verdicts, and trained on."""
    language: Text = "Python"
    """Family `stored`: programs in this language are read."""
    max_groups: Count = 4
    """Family `stored`: groups of four programs that a problem gives at most."""
    environment: Text | None = None
    """Says what is run and what is right where tests are not stdin and stdout: a class of your own,
    `FILE.py:NAME` (from the configuration file's folder) or `MODULE:NAME` (null: as the recipe's
    `cobalt.environment`, else none; docs/howto/environment.md)."""
    overlap: Literal["refuse", "drop"] = "refuse"
    """Family `files`: a training task whose statement is also among the others is refused (`refuse`) or left
    out (`drop`)."""
    max_solutions: Annotated[Whole, Field(ge=0)] = 16
    """Family `taco`: reference programs of a task that are run until one passes; 0 runs none."""
    require_verified: Flag = False
    """Family `taco`: leave out tasks of which no reference program passes."""
    functional: Literal["stdin", "call", "drop"] = "stdin"
    """Family `taco`: tasks that ask for a function become programs that read their arguments (`stdin`,
    published), are called (`call`) or left out (`drop`)."""
    public_tests: Count = 4
    """How many of the first tests are public where a task does not say which are."""
    split_seed: Whole = 42
    """Family `taco`: draws the development split."""
    expected_train: Count | None = None
    """Training tasks (of `stored`: groups) that the cost plan counts on, where it cannot count them."""
    expected_dev: Count | None = None
    """Development tasks that the cost plan counts on."""

    def __post_init__(self) -> None:
        for name, count in TASKS.items() if self.family == "tiny" else ():
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
    """The reference model: what collects the trajectories and is trained."""

    path: Text = "../models/tiny-reference"
    """A folder in Hugging Face format, from the configuration file's folder, or a name on the hub (profile
    gpu)."""
    engine: Text = "transformers"
    """What runs the reference: `transformers` in this process; `vllm`, that is `vllm serve`, started for the
    stages that need it (`execution.serving`), or a server at `base_url`; `openai`, any service at `base_url`;
    `litellm`, a provider; or an engine of your own, `FILE.py:NAME` (from the configuration file's folder) or
    `MODULE:NAME`, called with the model's folder (docs/howto/engine.md)."""
    base_url: Address | None = None
    """Address of the service, up to `/v1`: engines `openai` (needed), `vllm`, `litellm`, your own."""
    served_name: Text | None = None
    """The model's name at the service (null: as `path`)."""
    trained_engine: Literal["transformers", "vllm"] | None = None
    """What runs the trained models; needed where `engine` cannot (null: `engine`)."""
    prompts: Text = "tiny"
    """`default`, `tiny` or a file of prompts (docs/reference/prompts.md), for all dialogues, those of online
    trainings too, and for the judge."""
    feedback: Text | None = None
    """Writes the user's message after a program: a function of your own, `FILE.py:NAME` (from the
    configuration file's folder) or `MODULE:NAME`, in all dialogues, those of online trainings too (null: as
    the recipe's `cobalt.feedback`, else the built-in text; docs/howto/feedback.md)."""
    max_context: Count = 512
    """Tokens of prompt and completion together."""
    thinking: Flag = False
    """Dialogues keep what follows the last `</think>` only."""


@dataclass(frozen=True, config=KNOWN_KEYS, kw_only=True)
class Sampling:
    """How programs are sampled everywhere but in training (whose settings are its own)."""

    temperature: Number = 1.0
    """0 is greedy."""
    top_p: Share = 1.0
    """Share of the probability that is sampled from."""
    max_tokens: Count
    """Tokens of one program's completion (left out: as the recipe's)."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Collect:
    """Trajectories of the reference, of which contexts are cut."""

    samples: Several = 8
    """Dialogues per task."""
    turns: Several = 3
    """Programs per dialogue."""
    trajectories: Text | None = None
    """Ready trajectories of the training tasks, a file or folder of `eval_multi_turn.py` or a hub name:
    recipes on contexts take them in place of their own."""
    dev_trajectories: Text | None = None
    """The same, of the development tasks."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Contexts:
    """How trajectories become contexts."""

    policy: Literal["faithful", "fixed"] = "faithful"
    """Stop rules of slicing: as published (`faithful`) or corrected (`fixed`)."""
    selection: Literal["max_variance", "random", "all"] = "max_variance"
    """Which trajectories of a task are cut: at most four, of the largest variance of pass rates
    (`max_variance`, published), at most four at random, or all candidates."""
    rule: Text | None = None
    """Says which trajectories are cut and where, in place of the two above: a function of your own,
    `FILE.py:NAME` (from the configuration file's folder) or `MODULE:NAME` (null: as the recipe's
    `cobalt.contexts`, else the published rule; docs/howto/contexts.md)."""
    partial: Flag = True
    """False leaves the slices out: only problem statements are trained on."""
    validation: Literal["trajectories", "openings"] | None = None
    """Validation set of recipes on contexts: cut from trajectories of development tasks by the published
    rule, or these tasks alone (null: `trajectories` on GPUs, `openings` on CPU, where training does not
    validate)."""
    max_prompt_tokens: Count | None = None
    """A longer prompt is not cut further (null: as `train.max_prompt_tokens`)."""

    @property
    def beside_rule(self) -> str:
        """The first key that says something else than the default and that a rule takes the place of."""
        others = {"policy": "faithful", "selection": "max_variance", "partial": True}
        return next((name for name, usual in others.items() if getattr(self, name) != usual), "")


@dataclass(frozen=True, config=KNOWN_KEYS, kw_only=True)
class Train:
    """Training in verl. What is left out is as the recipe says at this `profile` and `scale`."""

    recipe: Text = "cobalt"
    """A recipe of `verl/config/recipe` (docs/recipes.md), or a YAML file of your own
    (docs/howto/recipe.md)."""
    trains_on: Literal["contexts", "statements", "stored", "revisions"]
    """Contexts cut from trajectories, statements (also of dialogues), stored groups of programs, or of the
    second programs of trajectories."""
    perturbed: Flag
    """Whether contexts from perturbed tests are mixed in."""
    profile: Literal["cpu", "gpu"] = "cpu"
    """The hardware: `verl/config/profile`."""
    scale: Literal["tiny", "published"]
    """The sizes: `verl/config/scale` (left out: tiny on CPU, published on GPUs)."""
    reward_profile: Text
    """A variant of the shaped reward: a name in `cobalt.rewards.cobalt.PROFILES`."""
    steps: Count | None = None
    """Optimisation steps; or `epochs`."""
    epochs: Count | None = None
    """Passes over the data; or `steps` (both left out: as the recipe says)."""
    contexts: Count
    """Prompts of a step."""
    completions: Several
    """Completions of a prompt: the group that advantages are taken in."""
    mini_batches: Count
    """Optimiser steps of a step; divides `contexts`."""
    learning_rate: Share
    """Of AdamW."""
    max_prompt_tokens: Count
    """Longer prompts are left out of the training data."""
    max_response_tokens: Count
    """Tokens of a completion, of dialogues all turns together."""
    gpus: Count | None = None
    """GPUs per node, profile gpu (null: as the profile says)."""
    lora_rank: Annotated[Whole, Field(ge=0)]
    """Rank of adapters, profile gpu or stored completions; 0 trains all weights."""
    lora_alpha: Count
    """Scale of adapters."""
    perturbed_share: Annotated[Number, Field(ge=0.01, le=1)] | None = None
    """Share of the training rows that come from perturbed tests, where they are mixed in (null: the
    recipe's)."""
    perturbed_kind: Perturbation = "swap"
    """How these tests were made wrong; as `perturb.kind`."""
    overrides: list[Text] = field(default_factory=list)
    """Settings of verl and of `cobalt.*` (docs/reference/training.md), `key=value`, appended as they are."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Serving:
    """`vllm serve` as engine `vllm` starts it."""

    replicas: Count = 1
    """Copies of the model (data parallel)."""
    tensor_parallel: Count = 1
    """GPUs of a copy."""
    eager: Flag = False
    """Starts sooner and runs slower (`--enforce-eager`)."""
    gpu_memory: Annotated[Number, Field(ge=0.05, le=1)] = 0.9
    """Share of a GPU's memory."""
    start_s: Count = 1800
    """Seconds until it must answer."""
    command: list[Text] | None = None
    """Replaces `vllm serve`: the words of a command that serves an OpenAI-compatible API at
    `http://127.0.0.1:{port}`; `{model}`, `{port}`, `{replicas}`, `{tensor_parallel}` and `{max_context}` are
    filled in."""


@dataclass(frozen=True, config=KNOWN_KEYS)
class Execution:
    """How the work is done; none of it changes results, so a run may continue under other values."""

    workers: Count | None = None
    """Worker processes that run programs (null: one per core)."""
    isolation: Literal["auto", "namespaces", "landlock", "none"] = "auto"
    """Level of the sandbox (docs/execution.md)."""
    evaluator: Text = "local"
    """Where programs run: `local`, or the service as `serve`, `auto` or a URL."""
    concurrency: Count = 256
    """Completions in flight."""
    threads: Count = 1
    """CPU threads of sampling in this process."""
    serving: Serving = field(default_factory=Serving)
    """The server of engine `vllm`."""
