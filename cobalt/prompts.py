"""Every prompt text and marker, each in one place.

The markers are the published ones (arXiv 2602.03806), because files are read by them: feedback is what
follows FEEDBACK_MARKER, a solved turn is told by ALL_PASSED_MARKER. All other wording is our own and can
be replaced by a JSON file.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from cobalt.errors import InputError
from cobalt.records import Message

PROBLEM_MARKER = (
    "Here is the problem you need to solve. "
    "Remember, your program should read from stdin and write to stdout:"
)
FEEDBACK_MARKER = "Here is the execution feedback:"
ALL_PASSED_MARKER = "The code has passed all public test cases"


@dataclass(frozen=True)
class Prompts:
    """The texts of a dialogue.

    `instruction` holds `{statement}` once, `feedback` holds `{feedback}` once, after FEEDBACK_MARKER and a
    newline; `all_passed` contains ALL_PASSED_MARKER. Raises InputError where that does not hold.
    """

    system: str
    instruction: str
    feedback: str
    all_passed: str
    no_code: str

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not isinstance(getattr(self, field.name), str):
                raise InputError(f"prompt '{field.name}' must be a string")
        if self.instruction.count("{statement}") != 1:
            raise InputError("prompt 'instruction' must contain {statement} exactly once")
        if self.feedback.count("{feedback}") != 1:
            raise InputError("prompt 'feedback' must contain {feedback} exactly once")
        head, marker, rest = self.feedback.partition(FEEDBACK_MARKER)
        if not marker or not rest.startswith("\n{feedback}"):
            raise InputError(
                f"prompt 'feedback' must contain {FEEDBACK_MARKER!r} followed by a newline and {{feedback}}"
            )
        if ALL_PASSED_MARKER in head:
            raise InputError("prompt 'feedback' must not contain the sentence that marks a solved turn")
        if not is_all_passed(self.all_passed):
            raise InputError(f"prompt 'all_passed' must contain {ALL_PASSED_MARKER!r}")

    def wrap(self, statement: str) -> str:
        """The user message that poses a problem."""
        return self.instruction.replace("{statement}", statement)

    def messages(self, instruction: str) -> list[Message]:
        """The opening of a dialogue: [system, user]. `instruction` is a wrapped statement."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": instruction}]

    def feedback_message(self, text: str | None) -> str:
        """The user message after a program: `text` is the feedback of its first failing public test.

        None says that every public test passed.
        """
        return self.all_passed if text is None else self.feedback.replace("{feedback}", text)

    @property
    def sha256(self) -> str:
        """Hash of all texts, for manifests."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()


def is_all_passed(message: str) -> bool:
    """Whether a feedback message says that all public tests passed.

    What a program printed is quoted after FEEDBACK_MARKER and cannot pretend: there the sentence counts
    only as the opening of the feedback (quoted output always follows a label such as `Input:`).
    """
    before, _, after = message.partition(FEEDBACK_MARKER)
    return ALL_PASSED_MARKER in before or after.lstrip().startswith(ALL_PASSED_MARKER)


def feedback_of(message: str) -> str:
    """The feedback in a message: all that follows FEEDBACK_MARKER and its newline; "" without a marker."""
    return message.partition(FEEDBACK_MARKER)[2].removeprefix("\n")


DEFAULT = Prompts(
    system=(
        "You are an expert competitive programmer who writes correct, efficient Python 3 programs.\n"
        "Every program you write must keep to these rules:\n"
        "1. Stay within ordinary limits on time and memory.\n"
        "2. Never stop or fork a process, send a signal, or call a shell.\n"
        "3. Leave the file system alone: do not create, change, move or delete files or folders.\n"
        "4. Import safe modules only; in particular none of psutil, resource, ipdb, tkinter and joblib."
    ),
    instruction=(
        "Solve the programming problem below in Python 3. Think it through step by step: work out what is "
        "asked, choose an algorithm that is fast enough, and trace it on the examples. Question your own "
        "reasoning as you go, and when you find a slip, correct it before you continue. Finish with one "
        "complete program, with comments on its main steps, in a single fenced block:\n"
        "```python\n# your program\n```\n\n" + PROBLEM_MARKER + "\n{statement}"
    ),
    feedback=(
        "Your program was run on the public tests and failed. Analyse the failure in full before you write "
        "anything new: trace the failing input through your program, quote the lines that go wrong, and say "
        "why they do. The environment that runs the program is fixed and right, so do not try to change it "
        "or work round it. Then give one complete new program, not a fragment, in a single fenced "
        "```python block.\n\n" + FEEDBACK_MARKER + "\n{feedback}"
    ),
    all_passed=(
        ALL_PASSED_MARKER + ". Hidden tests follow, so look for what these did not cover: extreme sizes, "
        "empty or repeated values, ties, odd formatting of the input. Correct or improve the program where "
        "needed, and give the complete program again in a single fenced ```python block."
    ),
    no_code="No code block could be extracted from the response. Put the program in one ```python block.",
)

# What a statement says if its tests call a function, where the wrapper asks for a program.
FUNCTION_NOTE = (
    "\n\nFor this problem, do not read from stdin or print. Define {name} as below; the tests call it with "
    "their arguments and compare what it returns.\n```python\n{starter}\n```"
)

TINY = Prompts(
    system="Write a Python program.",
    instruction="{statement}",
    feedback=FEEDBACK_MARKER + "\n{feedback}",
    all_passed=ALL_PASSED_MARKER + ". Check the edge cases.",
    no_code="No code block could be extracted.",
)

BUILT_IN = {"default": DEFAULT, "tiny": TINY}


def function_statement(statement: str, fn_name: str, starter_code: str | None) -> str:
    """A statement whose tests call `fn_name`, with the code to start from (or a bare signature)."""
    starter = (starter_code or "").strip("\n") or f"def {fn_name}(*arguments):"
    return statement + FUNCTION_NOTE.replace("{name}", fn_name).replace("{starter}", starter)


def load(spec: str) -> Prompts:
    """The prompt set `default` or `tiny`, or one from a JSON file with exactly the fields of Prompts.

    Raises InputError for a file that is missing, malformed or lacks what Prompts needs.
    """
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    path = Path(spec)
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"prompts {spec!r}: not one of {', '.join(BUILT_IN)}, and not a readable file ({error.strerror})"
        ) from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    names = {field.name for field in dataclasses.fields(Prompts)}
    if not isinstance(texts, dict) or set(texts) != names:
        raise InputError(f"{path}: must be a JSON object with exactly the keys {', '.join(sorted(names))}")
    try:
        return Prompts(**texts)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
