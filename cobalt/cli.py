"""What every command line shares: flags, exit codes, and how progress is shown.

Flags are written with underscores (`--num_completions`); hyphens are accepted in their place.
Exit codes: 0 done, 1 a fault of ours or rows that failed, 2 input that cannot be used, 130 interrupted.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, TextIO, TypeVar

from cobalt.errors import CobaltError, InputError

_Namespace = TypeVar("_Namespace")

# Libraries that not everybody needs, by the extra of pyproject.toml that brings them; the first one counts.
EXTRAS = {
    "providers": ("aiohttp", "boto3", "httpx", "litellm", "openai"),
    "hub": ("huggingface_hub",),
    "report": ("jinja2", "markupsafe", "matplotlib"),
    "verifiers": ("verifiers",),
    "vllm": ("vllm",),
    "train": (
        "accelerate", "cachetools", "datasets", "fastapi", "hydra", "krippendorff",
        "omegaconf", "packaging", "pandas", "peft", "psutil", "pyarrow", "ray", "safetensors",
        "starlette", "tensordict", "tokenizers", "torch", "transfer_queue", "transformers", "verl",
    ),
}  # fmt: skip


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, except where there is nothing to show (None, False, required flags)."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.required or action.default is None or action.default is False or action.default == "":
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` to which `--a-b` and `--a_b` are the same flag, and that never guesses prefixes."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: _Namespace | None = None
    ) -> tuple[Any, list[str]]:
        given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._with_registered_spelling(given), namespace)

    def _with_registered_spelling(self, args: list[str]) -> list[str]:
        registered = {option.replace("_", "-"): option for option in self._option_string_actions}
        result: list[str] = []
        for position, arg in enumerate(args):
            if arg == "--":
                return result + args[position:]
            name, equals, value = arg.partition("=")
            if name.startswith("--"):
                name = registered.get(name.replace("_", "-"), name)
            result.append(name + equals + value)
        return result


def parser(description: str, **kw: Any) -> Parser:
    """A parser in the project's style; `kw` goes to `argparse.ArgumentParser`."""
    kw.setdefault("formatter_class", HelpFormatter)
    kw.setdefault("allow_abbrev", False)
    return Parser(description=description, **kw)


def positive_int(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    value = int(text)  # argparse says what is wrong with another text
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install where an optional library is not there at all; None for any other failed import."""
    library = error.name
    extra = next((name for name, libraries in EXTRAS.items() if library in libraries), None)
    if library is None or extra is None:
        return None
    return f'this needs {library}, which is not installed: pip install "cobalt[{extra}]"'


def run_main(main: Callable[[list[str] | None], int | None]) -> NoReturn:
    """Run a door's `main` and leave the process with the exit code listed at the top of this module.

    `InputError` and `CobaltError` become one line on stderr, as does a library of an extra that is not
    installed; any other exception is a bug and keeps its traceback (Python exits with 1).
    """
    try:
        code = main(None) or 0
        sys.stdout.flush()
    except CobaltError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2 if isinstance(error, InputError) else 1
    except ModuleNotFoundError as error:
        needs = missing_extra(error)
        if needs is None:
            raise
        print(f"error: {needs}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt as interrupt:
        print(f"interrupted: {interrupt or 'run the same command again to continue'}", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def tell(lines: Iterable[str], warnings: Iterable[str] = ()) -> None:
    """Warnings to stderr, the report to stdout."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for line in lines:
        print(line)


class Progress(Protocol):
    """What the pipeline tells while it runs. `done` of `total` rows (None: unknown); `fields` are extras."""

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None: ...


class LineProgress:
    """One plain line when a stage starts, at most every `every_s` seconds, also while no row is done, and
    when it ends.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._every_s = every_s
        self._started: dict[str, tuple[float, int]] = {}
        self._written: dict[str, tuple[float, int | None]] = {}
        self._lock = threading.Lock()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        now = time.monotonic()
        with self._lock:
            started, first = self._started.setdefault(label, (now, done))
            written, shown = self._written.get(label, (-self._every_s, None))
            ends = done == total and done != shown
            if shown is not None and not ends and now - written < self._every_s:
                return
            self._written[label] = now, done
            parts = [f"{label}: {done}/{'?' if total is None else total}"]
            if total and first < done < total:
                parts.append(f"{(now - started) / (done - first) * (total - done):.0f} s left")
            parts += [f"{name} {value}" for name, value in fields.items() if value]
            self.say(", ".join(parts))

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Lines stay where they are."""


@contextlib.contextmanager
def make_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """The display that fits a stream (default stderr): bars, drawn by rich, on a terminal, else lines."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield LineProgress(stream)
        return
    from rich.console import Console
    from rich.progress import Progress as Display
    from rich.progress import TextColumn

    extra = TextColumn("{task.fields[extra]}")
    with Display(*Display.get_default_columns(), extra, console=Console(file=stream)) as display:
        yield TerminalProgress(display)


class TerminalProgress:
    """A bar per stage in a display of rich, whose last column is `extra`."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()

    def advance(self, label: str, done: int, total: int | None, **fields: Any) -> None:
        extra = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
        with self._lock:
            if label not in self._tasks:
                self._tasks[label] = self._display.add_task(label, total=total, completed=done, extra=extra)
            self._display.update(self._tasks[label], completed=done, total=total, extra=extra)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._display.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def clear(self) -> None:
        """Remove the bars."""
        with self._lock:
            for task in self._tasks.values():
                self._display.remove_task(task)
            self._tasks.clear()
