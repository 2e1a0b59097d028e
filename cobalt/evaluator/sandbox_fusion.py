"""SandboxFusion's interface (github.com/bytedance/SandboxFusion) on raw runs: `POST run_code`, `GET v1/ping`.

Requests, answers and refusals have the fields of its published schema, so that its clients work unchanged.
Only its language `python` is run; the others, and notebooks, are answered with its `SandboxError`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from posixpath import join, relpath
from typing import Any, ClassVar

from pydantic import Base64Bytes, BaseModel, Field, ValidationError

from cobalt.errors import BadRequest
from cobalt.evaluator.runs import FINISHED, RunRequest, bytes_of, text_of
from cobalt.sandbox.limits import Limits

PING = "/v1/ping"
_NOTEBOOK = "/run_jupyter"
ROUTES = ("/run_code", _NOTEBOOK)  # by POST

_FOLDER = "/tmp"  # a program's own, where relative paths begin
_LEAST_MIB = 128
_KILLED = -9  # the exit status where a limit other than that of time ended a program


class RunCodeRequest(BaseModel):
    """Seconds are of wall time; ``files``: base64 by path; ``memory_limit_MB``: 0 and less: the service's."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    run_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    memory_limit_MB: int = -1
    files: dict[str, Base64Bytes | None] = {}
    fetch_files: list[str] = []


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
        said = f"language {asked.language!r:.80} is not run here: 'python' is"
        return {"status": "infra_error", "stderr": said}
    given = asked.files.items()
    files = {relpath(join(_FOLDER, name), _FOLDER): text_of(data) for name, data in given if data is not None}
    return _Timed(
        asked.code, asked.stdin or "", files, fetch_files=asked.fetch_files, wall_s=asked.run_timeout,
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
    found = {"status": "SandboxError", "message": said, "compile_result": None, "run_result": None}
    found |= {"executor_pod_name": os.environ.get("MY_POD_NAME"), "files": run.get("files", {})}
    if status == "infra_error":
        return found
    late = status == "time_limit"
    if not late and status not in (FINISHED, "runtime_error"):
        said += f"\n{status.replace('_', ' ')} exceeded\n"
    ended = {
        "status": "TimeLimitExceeded" if late else "Finished",
        "execution_time": run["wall_s"],
        "cpu_time": run["cpu_s"],
        "return_code": None if late else code if status == FINISHED else code or _KILLED,
        "stdout": _clean(run["stdout"]),
        "stderr": said,
    }
    return found | {
        "status": "Success" if status == FINISHED else "Failed",
        "message": "",
        "run_result": ended,
    }


def _clean(text: str) -> str:
    """Bytes that are no UTF-8 replaced: clients print what they get."""
    return bytes_of(text).decode("utf-8", "replace")
