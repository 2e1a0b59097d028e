"""The fields of every row that travels between stages: types, axes, meanings.

Rows are plain dictionaries at run time; these types say what is in them. The field table of `docs/data.md`
is made from this file, and `cobalt data check` judges files by it. Axes: S samples, T turns (programs).
"""

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict  # checked by pydantic, which needs this one on Python 3.11


@dataclass(frozen=True)
class Doc:
    """What a field means. `json`: JSON text inside a string; `ours`: not a field of the published files."""

    meaning: str
    axes: str = ""
    json: bool = False
    ours: bool = False


SUITE_STATUSES = ("ok", "no_code", "compile_error", "infra_error")
TEST_STATUSES = ("passed", "wrong_answer", "runtime_error", "time_limit", "memory_limit", "output_limit")
SKIPPED = "skipped"  # a test's status only where judging was asked to stop at the first failure


class Message(TypedDict):
    """One chat message; `role` is system, user or assistant."""

    role: str
    content: str


class TestResult(TypedDict):
    """Outcome of one test: `status` from TEST_STATUSES (or SKIPPED), times in seconds, `returncode` None if
    killed, `peak_bytes` of resident memory of its largest process.
    """

    status: str
    cpu_s: float
    wall_s: float
    returncode: int | None
    peak_bytes: NotRequired[int]


class ExecutionResult(TypedDict, total=False):
    """Verdict on one program. `passing`, `feedback` and `per_test` have one entry per test.

    `status` is one of SUITE_STATUSES; `suite_limit` says that the time for the whole suite ran out: then no
    test is passing, and `per_test` has those that had finished and `time_limit` for the others. `shared`:
    the verdict was taken from an identical request.
    """

    passing: list[bool]
    feedback: list[str]
    status: str
    per_test: list[TestResult]
    suite_limit: bool
    shared: bool


Id = Annotated[str | int, Doc("key of the task; 0 is one")]
Tests = Annotated[str, Doc("all tests, public ones first: `{inputs, outputs[, fn_name]}`", json=True)]
Label = Annotated[str, Doc("label of the source")]


class TacoSource(TypedDict, total=False):
    """A row of TACO-verified."""

    id: Id
    question: Annotated[str, Doc("statement")]
    difficulty: Label
    solutions: Annotated[list[str] | str, Doc("reference programs")]
    input_output: Annotated[str | dict[str, Any], Doc("`{inputs, outputs[, fn_name]}`", json=True)]
    source: Annotated[str, Doc("site; leetcode means that functions are methods of `Solution`")]
    starter_code: Annotated[str, Doc("signature of a function task")]


class LcbSource(TypedDict, total=False):
    """A problem of a LiveCodeBench release file."""

    question_id: Annotated[str | int, Doc("key of the problem")]
    question_title: Annotated[str, Doc("title")]
    question_content: Annotated[str, Doc("statement with examples")]
    platform: Annotated[str, Doc("site")]
    contest_id: Annotated[str, Doc("contest")]
    contest_date: Annotated[str, Doc("ISO date")]
    starter_code: Annotated[str, Doc("signature of a functional problem")]
    difficulty: Label
    public_test_cases: Annotated[str, Doc("list of `{input, output, testtype}`", json=True)]
    private_test_cases: Annotated[str, Doc("the same; or base64 of zlib of a pickle of that text", json=True)]
    metadata: Annotated[str, Doc("`{func_name}` of a functional problem", json=True)]


class TaskRow(TypedDict, total=False):
    """A task."""

    id: Id
    difficulty: Annotated[str, Doc("label of the source; tiny: how many slots are vague")]
    question: Annotated[str, Doc("raw statement (TACO and tiny)")]
    instruction: Annotated[str, Doc("the statement as the model reads it: wrapped")]
    test_cases: Tests
    public_test_cases: Annotated[str, Doc("the part that is shown to the model", json=True)]
    hidden_test_cases: Annotated[str, Doc("the other part", json=True)]
    verified: Annotated[
        bool | None, Doc("a reference program passes all tests; null: none was run", ours=True)
    ]
    fn_name: Annotated[str, Doc("function that the source's tests call (TACO)", ours=True)]
    question_title: Annotated[str, Doc("LiveCodeBench, as in the source, like the next five")]
    platform: Annotated[str, Doc("site")]
    contest_id: Annotated[str, Doc("contest")]
    contest_date: Annotated[str, Doc("ISO date")]
    starter_code: Annotated[str, Doc("signature of a functional problem")]
    metadata: Annotated[str, Doc("`{func_name}` of a functional problem", json=True)]
    is_functional: Annotated[bool, Doc("LiveCodeBench: the problem asks for a function", ours=True)]
    group: Annotated[str, Doc("tiny: structure, for intervals by structure", ours=True)]
    slots: Annotated[list[str], Doc("tiny: vague slots (constant, rearrangement, format)", ours=True)]


class PerturbedRow(TaskRow, total=False):
    """A task with perturbed public tests beside the true ones."""

    modified_test_cases: Annotated[
        str, Doc("the tests that are wrong: two exchanged outputs, or as `--kind` says", json=True)
    ]
    perturbed_public_test_cases: Annotated[str, Doc("all public tests after that, these first", json=True)]


class SingleTurnRow(TaskRow, total=False):
    """A task with sampled completions and their verdicts on all tests."""

    responses: Annotated[list[str], Doc("completions", "[S]")]
    exec_results: Annotated[list[ExecutionResult], Doc("verdicts on all tests", "[S]")]
    finish_reasons: Annotated[
        list[Any],
        Doc("`stop`, `length`, `context_overflow`, ...", "[S]; [T][S] from the multi-turn door", ours=True),
    ]
    usage: Annotated[list[Any], Doc("`{prompt_tokens, completion_tokens, ...}`", "[S]; [T][S] there")]
    exact_programs: Annotated[list[str], Doc("of samples: judged in place of `responses`", "[S]", ours=True)]


class SampleRow(TypedDict, total=False):
    """A sample of EvalPlus and BigCodeBench, or the samples of a problem for LiveCodeBench's evaluator."""

    task_id: Annotated[str | int, Doc("key of the task")]
    solution: Annotated[str, Doc("program")]
    completion: Annotated[str, Doc("in place of it: what follows the prompt")]
    question_id: Annotated[str | int, Doc("LiveCodeBench: key of the problem")]
    code_list: Annotated[list[str], Doc("LiveCodeBench: programs", "[S]")]


class SingleEvalRow(SingleTurnRow, total=False):
    """A single-turn row with the hidden tests."""

    all_pass_rates: Annotated[
        list[list[float | None]], Doc("share of hidden tests passed, in [0, 1]", "[S][1]")
    ]
    exec_status: Annotated[list[list[str]], Doc("as of evaluated trajectories", "[S][1]", ours=True)]


class TrajectoryRow(SingleTurnRow, total=False):
    """Dialogues of several programs."""

    conversations: Annotated[
        list[list[Message]], Doc("system, user, then program and feedback in turn", "[S][2+2T]")
    ]
    raw_responses: Annotated[list[list[str | None]], Doc("uncut completions", "[T][S]")]
    public_pass_rates: Annotated[
        list[list[float | None]], Doc("share of public tests passed, in [0, 1]", "[T][S]")
    ]
    public_exec_results: Annotated[
        list[list[ExecutionResult | None]], Doc("verdicts on public tests", "[T][S]")
    ]
    turn_flags: Annotated[list[list[Any]], Doc("what was unusual, if anything was", "[T][S]", ours=True)]
    context_overflow: Annotated[list[list[Any]], Doc("no room for another program", "[T][S]", ours=True)]
    stopped_when_passed: Annotated[list[bool], Doc("the dialogue ended early", "[S]", ours=True)]


class EvalRow(TrajectoryRow, total=False):
    """A trajectory row with the hidden tests."""

    all_pass_rates: Annotated[
        list[list[float | None]], Doc("share of hidden tests passed, in [0, 1]; null: no verdict", "[S][T]")
    ]
    exec_status: Annotated[
        list[list[str]], Doc("`ok`, `no_code`, `compile_error`, `infra_error`", "[S][T]", ours=True)
    ]
    hidden_test_status: Annotated[
        list[list[list[str] | None]],
        Doc("status of every hidden test, with `--per_test`; null: no verdict", "[S][T]", ours=True),
    ]


class ContextRow(TypedDict, total=False):
    """One bandit context: a dialogue that ends with a user message."""

    example_id: Annotated[str | int, Doc("`id` of the task")]
    conversation: Annotated[list[Message], Doc("the prompt: none to all programs shown", "[2 + 2 programs]")]
    test_cases: Tests
    difficulty: Label
    prev_best_pass_rate: Annotated[float, Doc("best combined rate of the programs shown, in [0, 1]")]


class ParquetRow(TypedDict, total=False):
    """A training example as verl reads it, beside the columns of its input."""

    data_source: Annotated[str, Doc("`code_taco_verified`")]
    prompt: Annotated[list[Message], Doc("what the policy answers")]
    ability: Annotated[str, Doc("`code`")]
    reward_model: Annotated[
        dict[str, Any], Doc("`style` (`rule`) and `ground_truth`: all tests as JSON text")
    ]
    extra_info: Annotated[
        dict[str, Any],
        Doc("`split`, `index` (id or -1), and for contexts `prev_best_pass_rate`; a copy of the prompt"),
    ]


class GroupRow(TypedDict, total=False):
    """A group of stored programs for one prompt, for offline training."""

    data_source: Annotated[str, Doc("`code_net` or `code_taco_verified`", ours=True)]
    prompt: Annotated[list[Message], Doc("what the programs answer", ours=True)]
    completions: Annotated[
        list[dict[str, Any]],
        Doc(
            "`text`, `pass_rate` in [0, 1]; of CodeNet also `status`, `cpu_time` (ms), `parses`; of second "
            "programs `baseline`, the mean pass rate of the first",
            "[n]",
            ours=True,
        ),
    ]
    extra_info: Annotated[dict[str, Any], Doc("`split`, `index`", ours=True)]


class TurnErrorRow(TypedDict, total=False):
    """A repair that bent a program to a perturbed test."""

    id: Id
    question: Annotated[str, Doc("statement")]
    previous_code: Annotated[str, Doc("program before")]
    feedback: Annotated[str, Doc("what was shown")]
    current_code: Annotated[str, Doc("program after")]
    patch: Annotated[str, Doc("unified difference of the two")]
    all_acc: Annotated[list[float | None], Doc("hidden rates up to this turn", "[t+1]")]
    public_all_acc: Annotated[list[float | None], Doc("public rates up to this turn", "[t+1]")]


class JudgedRow(TurnErrorRow, total=False):
    """A turn error with the judge's opinion."""

    judge_seq_id: Annotated[str, Doc("position of the case")]
    responses: Annotated[list[str], Doc("the judge's texts", "[n]")]
    usage: Annotated[list[Any], Doc("tokens", "[n]")]
    classification: Annotated[list[str], Doc("`(k) Name` or `Unknown`", "[n]")]
    asked: Annotated[list[int], Doc("tries until a vote could be read", "[n]", ours=True)]
    verdict: Annotated[str, Doc("majority of the votes, `Tie` or `Unknown`", ours=True)]
    judge_model: Annotated[str, Doc("engine and model", ours=True)]
    case_sha256: Annotated[str, Doc("hash of what the judge saw: the key of the row", ours=True)]


class RejectRow(TypedDict, total=False):
    """A row that a door left out under `--on_bad_row skip`."""

    where: Annotated[str, Doc("`file:line`", ours=True)]
    error: Annotated[str, Doc("what is wrong", ours=True)]
    text: Annotated[str, Doc("the beginning of the line", ours=True)]
    id: Annotated[str | int, Doc("key, if there is one", ours=True)]


class FailureRow(TypedDict, total=False):
    """A row that was given up after retries."""

    id: Id
    error: Annotated[str, Doc("the last error", ours=True)]
    attempts: Annotated[int, Doc("how often it was tried", ours=True)]
    time: Annotated[str, Doc("when it was given up", ours=True)]
    traceback: Annotated[str, Doc("where in the code", ours=True)]


class ReferenceRow(TypedDict, total=False):
    """Verdict on the reference programs of a task."""

    id: Id
    verified: Annotated[bool | None, Doc("one of them passes; null: there are none", ours=True)]
    tried: Annotated[int, Doc("programs run", ours=True)]
    solution: Annotated[int, Doc("index of the one that passed", ours=True)]
    way: Annotated[str, Doc("`stdin`; functions: `call`, or `split` (words of the input)", ours=True)]


class OverlapRow(TypedDict, total=False):
    """A task that shares word sequences with an evaluation problem."""

    id: Id
    problem: Annotated[str | int, Doc("key of the problem", ours=True)]
    shared: Annotated[int, Doc("word sequences in both", ours=True)]
    share_of_task: Annotated[float, Doc("of those of the task", ours=True)]
    share_of_problem: Annotated[float, Doc("of those of the problem", ours=True)]
