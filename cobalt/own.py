"""Functions and classes of the user's own, named as ``FILE.py:NAME`` or ``MODULE:NAME``.

A method is made of such functions (reward, feedback, contexts, advantage, policy loss) and a class
(environment). Each names in its signature what it wants of what is offered to it; parameters with a default
that are not offered are constants of the method, which a recipe may set.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from cobalt.errors import InputError

_BESIDE = "looked beside the recipe and in PYTHONPATH"


@dataclass(frozen=True)
class Own:
    """A function found by its ``spec`` for a ``setting``: ``own(name=value, ...)`` calls it with what it
    takes of that, and its ``constants``.

    ``where``: ``file:line`` of its definition; ``sha256``: of its file. ``takes``: names of what is offered
    to it; ``constants``: values of its other parameters, where they are not the defaults.
    """

    spec: str
    setting: str
    function: Callable[..., Any]
    where: str
    sha256: str
    takes: frozenset[str]
    constants: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **offered: Any) -> Any:
        given = {name: value for name, value in offered.items() if name in self.takes}
        return self.function(**given, **self.constants)

    @property
    def about(self) -> dict[str, str]:
        """For a manifest: what it is, where, and of which content."""
        return {"spec": self.spec, "where": self.where, "sha256": self.sha256}

    def identity(self, kind: str) -> dict[str, str]:
        """For settings that a continued run must share: its name and content, wherever the file lies."""
        return {f"{kind}_function": self.spec.rpartition(":")[2], f"{kind}_sha256": self.sha256}


def is_spec(text: str) -> bool:
    """Whether a word has the form ``FILE.py:NAME`` or ``MODULE:NAME``."""
    place, _, name = text.rpartition(":")
    return name.isidentifier() and (
        place.endswith(".py") or all(part.isidentifier() for part in place.split("."))
    )


def absolute(spec: str, folder: Path) -> str:
    """The same with the file's absolute path, so that every process finds it: relative ones are in
    ``folder``. A module stays as it is.
    """
    place, _, name = spec.rpartition(":")
    return f"{(folder / Path(place).expanduser()).resolve()}:{name}" if place.endswith(".py") else spec


def find(spec: str, said: str, looked: str = _BESIDE) -> Any:
    """What ``spec`` names. Raises InputError, which begins with ``said``, where there is no such file, module
    (``looked``: where) or name, or where importing it fails (with the line).
    """
    if not is_spec(spec):
        raise InputError(f"{said}: must be FILE.py:NAME or MODULE:NAME")
    place, _, name = spec.rpartition(":")
    module = imported(place, said, looked)
    if not hasattr(module, name):
        raise InputError(f"{said}: {place} has no {name}")
    return getattr(module, name)


def imported(place: str, said: str, looked: str = _BESIDE) -> ModuleType:
    """The module in a file, or of a name. Raises InputError as `find` does."""
    try:
        return _of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except InputError as error:
        raise InputError(f"{said}: {error}") from None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise InputError(f"{said}: {_fault(error)}") from error
        raise InputError(f"{said}: there is no module {place} ({looked})") from None
    except (Exception, SystemExit) as error:
        raise InputError(f"{said}: {_fault(error)}") from error


def as_file(spec: str, folder: Path | None) -> str:
    """The same as FILE.py:NAME where it names a module in ``folder`` that PYTHONPATH has not: for a process
    that asks for several folders' modules of one name.
    """
    place, _, name = spec.rpartition(":")
    file = folder / f"{place}.py" if folder is not None and place.isidentifier() else None
    if file is None or not file.is_file() or importlib.util.find_spec(place) is not None:
        return spec
    return f"{file}:{name}"


def rows_of(spec: str, split: str) -> list[dict[str, Any]]:
    """The rows that the class named by ``spec`` has for a split: its ``tasks(split)``.

    Raises InputError, with ``file:line``, where there is no such class, it fails, or gives something else.
    """
    found = find(spec, f"tasks={spec}")
    where = place_of(found)
    if not hasattr(found, "tasks"):
        raise InputError(f"{where}: tasks={spec}: lacks tasks(split) -> rows")
    made = found() if isinstance(found, type) else found
    own = bind(made.tasks, spec, "tasks", ("split",))
    try:
        rows = list(own(split=split))
    except Exception as error:
        raise InputError(fault_in(own, error)) from error
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{own.where}: tasks={spec}: must give rows as dictionaries")
    return rows


def load(
    spec: str,
    setting: str,
    offered: Collection[str],
    *,
    constants: Mapping[str, Any] | None = None,
) -> Own:
    """The function that ``spec`` names, to be called with some of ``offered``.

    Of ``constants`` it gets those that it has parameters for. Raises InputError, with ``file:line``, for what
    cannot be called, or has a parameter without default that is not offered.
    """
    return bind(find(spec, f"{setting}={spec}"), spec, setting, offered, constants)


def bind(
    function: Any,
    spec: str,
    setting: str,
    offered: Collection[str],
    constants: Mapping[str, Any] | None = None,
) -> Own:
    """`load` of a function that is at hand, as the method of an object."""
    if not callable(function):
        raise InputError(f"{setting}={spec}: is no function")
    where = place_of(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise InputError(f"{setting}={spec}: its parameters cannot be read; wrap it in a function") from None
    everything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    named = {
        name: each
        for name, each in parameters.items()
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    }
    for name, each in named.items():
        if each.kind is each.POSITIONAL_ONLY:
            raise InputError(f"{where}: {setting}={spec}: parameter '{name}' cannot be given by name")
        if name not in offered and each.default is each.empty:
            raise InputError(
                f"{where}: {setting}={spec}: there is no '{name}' to give it; it may take "
                f"{', '.join(offered)}, and constants that have a default"
            )
    takes = frozenset(offered) if everything else frozenset(offered) & named.keys()
    own = {name: value for name, value in (constants or {}).items() if name in named and name not in offered}
    return Own(spec, setting, function, where, sha256_of(function), takes, own)


def constants_of(functions: Sequence[Own]) -> dict[str, Any]:
    """Names of the constants that these functions have, with their defaults."""
    return {
        name: each.default
        for own in functions
        for name, each in inspect.signature(own.function).parameters.items()
        if each.default is not each.empty and name not in own.takes
    }


def place_of(thing: Any) -> str:
    """``file:line`` of a definition."""
    thing = inspect.unwrap(thing.func if isinstance(thing, functools.partial) else thing)
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return str(getattr(thing, "__module__", "?"))


def fault_in(own: Own, error: BaseException) -> str:
    """``file:line`` of the last line of the function's own file that an error passed, and what it was."""
    file = own.where.rpartition(":")[0]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f"{file}:{lines[-1]}" if lines else own.where
    return f"{where}: {own.setting}={own.spec}: {type(error).__name__}: {error}"


def sha256_of(thing: Any) -> str:
    """SHA-256 of the file that something is defined in; of its name where there is none."""
    file = place_of(thing).rpartition(":")[0]
    data = Path(file).read_bytes() if file and Path(file).is_file() else repr(thing).encode()
    return hashlib.sha256(data).hexdigest()


def _of_file(path: Path) -> ModuleType:
    """The module in a file, imported once per process; files beside it can be imported by it."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    of = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes())  # a changed file is another module
    name = f"cobalt_own_{of.hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None  # of a name that ends with .py
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pickle look there
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _fault(error: BaseException) -> str:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ]
    last = frames[-1] if frames else None
    where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else ""
    where = where or (f"{last.filename}:{last.lineno}" if last else "")
    return f"{where}: cannot be imported: {type(error).__name__}: {error}"
