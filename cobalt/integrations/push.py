"""`cobalt push`: a model or files of rows as a repository of the Hugging Face hub, with a card made from what
stands beside them. It writes the folder as it would be uploaded, and uploads it only with `--really`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobalt.cli import parser, tell
from cobalt.data import Checker
from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun, named_paths
from cobalt.evaluation.origin import RUN_FILE
from cobalt.files import atomic_write, writing
from cobalt.hub import data_files, own_token, upload
from cobalt.integrations.cards import REFERENCE, Part, data_card, model_card
from cobalt.manifest import read_manifest, write_manifest
from cobalt.models import check_model
from cobalt.rows import encode_row, open_rows, parsed

_REPO = re.compile(r"[A-Za-z0-9][\w\-]*/[A-Za-z0-9][\w.\-]*")
_TOKEN = re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b")
_SPLITS = ("train", "dev", "test", "heldout", "validation")
_TEXTS = (".json", ".txt", ".jinja", ".py")
# What the evaluations of a run call the models of its trainings.
_ARMS = {"train": "cobalt", "train_single": "single_turn_training"}


def find_model(what: Sequence[str]) -> Path | None:
    """The model that is meant: a folder in Hugging Face's form, or that of a training with one in it."""
    for folder in (Path(what[0]), Path(what[0]) / "model"):
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            if len(what) > 1:
                raise InputError(f"{what[1]}: one repository holds one model, or files of rows")
            check_model(folder, flag="cobalt push")
            return folder
    return None


def evaluations(model: Path, given: Sequence[str]) -> list[EvaluatedRun]:
    """Of a model: `NAME=FILE` as given, else those of the run (`cobalt run`) that trained it."""
    training = model.absolute().parent
    names = [(REFERENCE, REFERENCE), ("trained", _ARMS.get(training.name, ""))]
    found = [(name, training.parent / f"evaluate/{arm}_eval.jsonl") for name, arm in names]
    inside = (training.parent / RUN_FILE).is_file() and all(path.is_file() for _, path in found)
    chosen = named_paths(given) if given else found if inside else []
    return [EvaluatedRun.read(name, path) for name, path in chosen]


def find_parts(what: Sequence[str]) -> list[Part]:
    """The files of rows that are meant (`PATH`, `SPLIT=PATH`, or a folder of them), read and checked as
    `cobalt data check` does. Raises InputError, with file, line and field, and for files of several kinds.
    """
    files = [str(each) for one in what for each in (data_files(Path(one)) if Path(one).is_dir() else [one])]
    if not files or (Path(what[0]) / RUN_FILE).is_file():
        raise InputError(f"{what[0]}: neither a model nor a folder of rows; name the one, or the files")
    named = [(re.sub(r"\W+", "_", name).strip("_"), path) for name, path in named_paths(files)]
    if len(named) == 1 and "=" not in files[0] and named[0][0] not in _SPLITS:
        named = [("train", named[0][1])]
    parts = [_read(split, path) for split, path in named]
    if other := next((part for part in parts if part.kind is not parts[0].kind), None):
        kinds = f"{other.kind.name}, not {parts[0].kind.name}"
        raise InputError(f"{other.path}: {kinds}; one repository holds rows of one kind")
    return parts


def _read(split: str, path: Path) -> Part:
    checker, run, secret = Checker(), EvaluatedRun(split, path), own_token()
    fields, rows = dict[str, None](), 0
    for where, raw in open_rows(path).raw():
        row = parsed(raw, where)
        checker(row, where)
        _refuse_tokens(raw if isinstance(raw, bytes) else encode_row(row), where, secret)
        fields |= dict.fromkeys(row)
        rows += 1
        if "all_pass_rates" in row:
            run.add(row, where)
    if checker.kind is None:
        raise InputError(f"{path} holds no rows")
    return Part(split, path, checker.kind, rows, fields, run if run.outcomes else None)


def _refuse_tokens(text: bytes, where: str, secret: str | None) -> None:
    if _TOKEN.search(text) or (secret and secret.encode() in text):
        raise InputError(f"{where}: this holds what looks like a token of the hub; take it out")


def write_folder(out: Path, files: dict[str, Path], card: str, settings: dict[str, Any]) -> None:
    """Replace `out` by the files (linked where the disk allows) and the card. Raises InputError for a folder
    that `cobalt push` did not make or that the files are in, and where a text holds a token.
    """
    texts = {str(path): path.read_bytes() for path in files.values() if path.suffix in _TEXTS}
    for where, text in {**texts, "README.md": card.encode()}.items():
        _refuse_tokens(text, where, own_token())
    ours = ((read_manifest(out) or {}).get("settings") or {}).get("stage") == settings["stage"]
    inside = any(out.resolve() in path.resolve().parents for path in files.values())
    if inside or (out.exists() and not ours and (out.is_file() or any(out.iterdir()))):
        raise InputError(f"--out {out}: there is something else already; name another folder")
    write_manifest(out, settings=settings, inputs=files)
    with writing(out):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        for place, path in files.items():
            try:
                os.link(path.resolve(), out / place)
            except OSError:  # another disk, or one without links
                shutil.copyfile(path, out / place)
    atomic_write(out / "README.md", card)


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt push`; returns the exit code."""
    flags = parser("Make a folder for the Hugging Face hub; --really uploads it.", prog="cobalt push")
    add = flags.add_argument
    add("what", nargs="+", metavar="WHAT", help="a model's folder, or files of rows: PATH or SPLIT=PATH")
    add("--repo", required=True, metavar="OWNER/NAME", help="the repository")
    add("--out", metavar="DIR", help="folder to write (default: outputs/push/OWNER/NAME)")
    add("--eval", nargs="+", default=[], metavar="NAME=FILE", help="evaluated rows of a model, for its card")
    add("--license", metavar="ID", help="as the hub calls it (mit, apache-2.0)")
    add("--public", action="store_true", help="a repository that is made is public; else it is private")
    add("--really", action="store_true", help="upload; without it nothing is sent")
    args = flags.parse_args(argv)
    if not _REPO.fullmatch(args.repo):
        raise InputError(f"--repo {args.repo}: must be OWNER/NAME")
    out, name = Path(args.out or Path("outputs", "push", args.repo)), args.repo.partition("/")[2]
    model, parts = find_model(args.what), list[Part]()
    if model is not None:
        kind, card = "model", model_card(model, name, evaluations(model, args.eval), args.license)
        inside = [each for each in sorted(model.iterdir()) if each.is_file() and each.name[0] != "."]
        files = {each.name: each for each in inside if each.name != "README.md"}
    else:
        if args.eval:
            raise InputError("--eval: only the card of a model has evaluations beside it")
        kind, parts = "dataset", find_parts(args.what)
        card, files = data_card(name, parts, args.license), {part.place: part.path for part in parts}
    closed = any(part.of_livecodebench for part in parts)
    if args.public and closed:
        raise InputError("--public: rows of LiveCodeBench; its hidden tests must not be published")
    write_folder(out, files, card, {"stage": "push", "repo": args.repo, "kind": kind})
    size = sum(each.stat().st_size for each in out.rglob("*") if each.is_file())
    tell([f"{out}: {len(files) + 1} files, {size:,} bytes, as they would be uploaded ({kind} {args.repo})"])
    sent = upload(out, args.repo, kind, public=args.public, closed=closed)
    tell(sent if args.really else ["nothing was sent; --really uploads it"])
    return 0
