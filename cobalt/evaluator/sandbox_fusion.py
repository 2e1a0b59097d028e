"""SandboxFusion's interface (github.com/bytedance/SandboxFusion) on raw runs: `POST run_code`, `GET v1/ping`.

Requests, answers and refusals have the fields of its published schema, so that its clients work unchanged.
Only its language `python` is run; the others, and notebooks, are answered with its `SandboxError`.
"""

import base64
import binascii
import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator

from cobalt.errors import BadRequest
from cobalt.evaluator.runs import FINISHED, RunRequest, bytes_of, text_of
from cobalt.sandbox.limits import Limits

PING = "/v1/ping"
_CODE, _NOTEBOOK = "/run_code", "/run_jupyter"
ROUTES = (PING, _CODE, _NOTEBOOK)

_FOLDER = "/tmp"  # a program's own, where relative paths begin
_LEAST_MIB = 128
_KILLED = -9  # the status of a process that a limit other than time ended

Language = Literal[
    "python", "python2", "cpp", "nodejs", "go", "go_test", "java", "php", "csharp", "bash", "typescript",
    "sql", "rust", "cuda", "lua", "R", "perl", "D_ut", "ruby", "scala", "julia", "pytest", "junit",
    "kotlin_script", "jest", "verilog", "python_gpu", "lean", "swift", "racket", "gtest", "react",
]  # fmt: skip


_Path = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]+$")]


class RunCodeRequest(BaseModel):
    """Seconds are of wall time; ``files``: base64 by path; ``memory_limit_MB``: 0 and less: the service's."""

    code: str
    language: Language
    stdin: str | None = None
    compile_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    run_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1
    files: dict[str, str | None] = {}
    fetch_files: list[_Path] = Field(default=[], max_length=256)

    @field_validator("files")
    @classmethod
    def _decoded(cls, files: dict[str, str | None]) -> dict[str, str]:
        found = {}
        for name, data in files.items():
            path = posixpath.relpath(posixpath.join(_FOLDER, name), _FOLDER)
            if path.startswith("..") or path == ".":
                raise ValueError(f"a file's path must lie below {_FOLDER}, got {name!r:.80}")
            try:
                content = base64.b64decode("".join((data or "").split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"{name!r:.80} is not base64: {error}") from None
            if data is not None:
                found[path] = text_of(content)
        return found


@dataclass(frozen=True)
class _Timed(RunRequest):
    """A run with this interface's limits: ``wall_s`` seconds of wall time, and of CPU time at most."""

    wall_s: float = 10
    memory_mib: int = -1
    mode: ClassVar[int] = 0o644

    def limits(self, given: Limits) -> Limits:
        seconds, memory = min(self.wall_s, given.suite_s), given.memory_bytes
        if self.memory_mib > 0:
            memory = min(max(self.memory_mib, _LEAST_MIB) << 20, memory)
        return replace(given, cpu_s=seconds, wall_s=seconds, memory_bytes=memory)


def parse(body: Any, path: str) -> RunRequest | dict[str, Any]:
    """The run that is asked for, or, for what is not run here, what `answer` takes.

    Raises ValidationError or BadRequest, for `refusal`.
    """
    if path.endswith(_NOTEBOOK):
        return {"status": "infra_error", "stderr": "notebooks are not run here: POST run_code"}
    asked = RunCodeRequest.model_validate(body)
    if asked.language != "python":
        return {
            "status": "infra_error",
            "stderr": f"language {asked.language!r} is not run here: 'python' is",
        }
    files: Any = asked.files
    return _Timed(
        asked.code, asked.stdin or "", files, fetch=asked.fetch_files, wall_s=asked.run_timeout,
        memory_mib=asked.memory_limit_MB,
    )  # fmt: skip


def refusal(error: ValidationError | BadRequest) -> dict[str, Any]:
    """The content of an answer 422, which names the fields."""
    if isinstance(error, BadRequest):
        return {"detail": [{"type": "value_error", "loc": ["body"], "msg": str(error)}]}
    told = error.errors(include_url=False, include_context=False, include_input=False)
    return {"detail": [{**each, "loc": ["body", *each["loc"]]} for each in told]}


def answer(run: Mapping[str, Any]) -> dict[str, Any]:
    """`RunCodeResponse` for a run (the fields of `cobalt.evaluator.runs.Run`)."""
    status, said, code = run["status"], _clean(run["stderr"]), run.get("returncode")
    found: dict[str, Any] = {
        "compile_result": None,
        "executor_pod_name": os.environ.get("MY_POD_NAME"),
        "files": {},
    }
    if status == "infra_error":
        return {"status": "SandboxError", "message": said, "run_result": None, **found}
    if status not in (FINISHED, "runtime_error", "time_limit"):
        said += f"\n{status.replace('_', ' ')} exceeded\n"
    ended = {
        "status": "TimeLimitExceeded" if status == "time_limit" else "Finished",
        "execution_time": run["wall_s"],
        "cpu_time": run["cpu_s"],
        "return_code": None if status == "time_limit" else code if status == FINISHED else code or _KILLED,
        "stdout": _clean(run["stdout"]),
        "stderr": said,
    }
    found["files"] = {name: base64.b64encode(bytes_of(text)).decode() for name, text in run["files"].items()}
    return {
        "status": "Success" if status == FINISHED else "Failed",
        "message": "",
        "run_result": ended,
        **found,
    }


def _clean(text: str) -> str:
    """Bytes that are no UTF-8 replaced: clients print what they get."""
    return bytes_of(text).decode("utf-8", "replace")
