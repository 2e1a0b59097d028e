"""Read the published wording out of a clone of the original repository, into a file for `--prompts`.

Nothing of that wording is part of this project. The script finds it by the markers that the published file
formats need anyway, without running anything of the clone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cobalt.cli import parser, run_main
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.prompts import (
    ALL_PASSED_MARKER,
    FEEDBACK_MARKER,
    JUDGE_FIELDS,
    PROBLEM_MARKER,
    VERDICT_MARKER,
    Prompts,
)

sys.path.append(str(Path(__file__).parent))
from clone_texts import HOLE, Clone, Text, template

_MARKERS = (ALL_PASSED_MARKER, FEEDBACK_MARKER, PROBLEM_MARKER)
_METHOD = (
    "run_multi_turn",
    "run_single_turn",
    "verl_preproc",
    "preproc_",
)  # of files that need no marker to count
_JUDGE = "run_llm_judge"
_SYSTEM = re.compile(r"role:system|_?sys(tem)?(_?(prompt|message|msg|instruction))?", re.IGNORECASE)


def find(folder: Path) -> dict[str, Text]:
    """The prompts of a clone by the names of `Prompts`, with the places where they stand (those for a judge
    only if the clone has one). Raises InputError for what is missing, has no marker or several wordings.
    """
    clone = Clone(folder)
    if not clone.modules:
        raise InputError(f"{folder}: there are no Python files to read; give the folder of the clone")
    return _Finder(folder, clone).prompts()


class _Finder:
    def __init__(self, folder: Path, clone: Clone) -> None:
        self.folder, self.unreadable = folder, clone.unreadable
        self.all = [_unwrapped(text) for text in clone.texts()]
        marked = {text.file for text in self.all if any(marker in text.value for marker in _MARKERS)}
        judges = {text.file for text in self.all if VERDICT_MARKER in text.value or _is(text.file, _JUDGE)}
        self.judge = [text for text in self.all if text.file in judges]
        rest = [text for text in self.all if text.file not in judges]
        self.method = [text for text in rest if text.file in marked or _is(text.file, *_METHOD)]
        self.other = [text for text in rest if text not in self.method]

    def prompts(self) -> dict[str, Text]:
        def no_code(text: Text) -> bool:
            words = all(word in text.value.lower() for word in ("extract", "code block"))
            return words and not any(marker in text.value for marker in _MARKERS)

        def system(text: Text) -> bool:
            return bool(_SYSTEM.fullmatch(text.name))

        found = {
            "system": self._one("system", self._first(system)),
            "instruction": self._template("instruction", PROBLEM_MARKER, "statement"),
            "feedback": self._template("feedback", FEEDBACK_MARKER, "feedback"),
            "all_passed": self._one("all_passed", self._all_passed()),
            "no_code": self._one("no_code", self._first(
                lambda text: text.name == "feedback" and no_code(text), no_code,
            )),
        }  # fmt: skip
        return found | (self._judge() if self.judge else {})

    def _first(self, *wanted: Callable[[Text], bool]) -> list[Text]:
        """The texts that are most surely meant: in files of the method before others."""
        for texts in (self.method, self.other):
            for fits in wanted:
                if found := [text for text in texts if fits(text)]:
                    return found
        return []

    def _template(self, name: str, marker: str, hole: str) -> Text:
        """The template that is filled in after a marker."""
        marked = [template(text) for text in self.all if marker in text.value]
        found = [text for text in marked if text.holes]
        if not found:
            names = ("instruction", "inst") if name == "instruction" else ("role:user", "feedback_template")
            near = [text for text in self.method if text.name.lower() in names and template(text).holes]
            raise self._missing(name, f"must have {marker!r} and a value filled in after it", near or marked)
        chosen = self._one(name, found, filled=True)
        if len(chosen.holes) > 1:
            raise InputError(f"{chosen.where}: prompt '{name}' has {len(chosen.holes)} values filled in")
        return _named(chosen, [hole])

    def _all_passed(self) -> list[Text]:
        """Those that say more than the sentence which scripts look for."""
        quoted = [text for text in self.method if ALL_PASSED_MARKER in text.value != ALL_PASSED_MARKER]
        found = [text for text in quoted if text.value.startswith(ALL_PASSED_MARKER)]
        if quoted and not found:
            raise self._missing("all_passed", f"must begin with {ALL_PASSED_MARKER!r}", quoted)
        return found

    def _judge(self) -> dict[str, Text]:
        system = self._one("judge_system", [text for text in self.judge if text.name == "role:system"])
        if VERDICT_MARKER not in system.value:
            raise self._missing("judge_system", f"must have {VERDICT_MARKER!r} in it", [system])
        filled = [text for text in map(template, self.judge) if len(text.holes) > 2]
        fitting = [text for text in filled if sorted(text.holes) == sorted(JUDGE_FIELDS)]
        if not fitting:
            raise self._missing(
                "judge_instruction", f"must have {', '.join(JUDGE_FIELDS)} filled in, once each", filled
            )
        return {
            "judge_system": system,
            "judge_instruction": _named(self._one("judge_instruction", fitting, filled=True)),
        }

    def _one(self, name: str, candidates: list[Text], *, filled: bool = False) -> Text:
        """The one wording."""
        if not candidates:
            raise self._missing(name, "was not found", [])
        wordings = {text.wording: text for text in reversed(candidates)}
        if len(wordings) > 1:
            places = _places(wordings[wording] for wording in sorted(wordings))
            raise InputError(
                f"prompt '{name}' has several wordings, in {places}; remove the files that do not count"
            )
        (chosen,) = wordings.values()
        if chosen.holes and not filled:
            raise InputError(f"{chosen.where}: prompt '{name}' has a value filled in where none is known")
        return chosen

    def _missing(self, name: str, why: str, near: list[Text]) -> InputError:
        where = _places(near) if near else str(self.folder)
        unread = [f"{file} ({why})" for file, why in self.unreadable if _is(file, *_METHOD, _JUDGE)]
        said = f"; not readable by this Python: {', '.join(unread)}" if unread else ""
        return InputError(f"{where}: prompt '{name}' {why}; is this the original repository?{said}")


def _unwrapped(text: Text) -> Text:
    """A message that the feedback template was filled with where that stands in the source: what it says."""
    _, marker, said = text.value.partition(f"{FEEDBACK_MARKER}\n")
    wrapped = marker and said and not template(text).holes
    return Text(text.file, text.line, text.name, said) if wrapped else text


def _is(file: str, *starts: str) -> bool:
    return file.rpartition("/")[2].startswith(starts)


def _places(texts: Iterable[Text]) -> str:
    return ", ".join(sorted({text.where for text in texts}))


def _named(text: Text, names: list[str] | None = None) -> Text:
    """The text with its holes as `{name}`: of `names`, in turn, or their own."""
    given = iter(names or text.holes)
    return Text(text.file, text.line, text.name, HOLE.sub(lambda _: f"{{{next(given)}}}", text.value))


def checked(found: dict[str, Text]) -> Prompts:
    """The prompts as one set. Raises InputError that names the place of what does not fit."""
    try:
        return Prompts(**{name: text.value for name, text in found.items()})
    except InputError as error:
        named = re.search(r"prompt '(\w+)'", str(error))
        raise InputError(f"{found[named[1]].where if named else ''}: {error}") from None


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        "Read the published prompts out of a clone of the original repository, for --prompts FILE."
    )
    flags.add_argument("path", type=Path, help="folder of the clone")
    flags.add_argument("-o", "--output_file", default="prompts.json", help="JSON file to write")
    args = flags.parse_args(argv)
    if not args.path.is_dir():
        raise InputError(
            f"{args.path} is not a folder; give the folder of a clone of the original repository"
        )
    found = find(args.path)
    prompts = checked(found)
    texts = {name: getattr(prompts, name) for name in found}
    atomic_write(args.output_file, json.dumps(texts, indent=2, ensure_ascii=False) + "\n")
    for name, text in found.items():
        print(f"{name}: {text.where}")
    if not any(name.startswith("judge_") for name in found):
        print("no judge in this clone: its prompts stay those of this project")
    print(f"{args.output_file}: {len(found)} prompts, sha256 {prompts.sha256}, judge {prompts.judge_sha256}")
    return 0


if __name__ == "__main__":
    run_main(main)
