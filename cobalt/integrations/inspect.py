"""`cobalt inspect`: evaluated rows as a log of inspect_ai, which `inspect view` opens.

The format is that of its `.eval` files (version 2): a ZIP of JSON, one member for each sample, which is a
dialogue. What is a sample here is an epoch there, and a task a sample. The package is not needed to write it.
"""

from __future__ import annotations

import contextlib
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cobalt
from cobalt.cli import parser, tell
from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun, Outcomes
from cobalt.evaluation.format import rate, shown
from cobalt.evaluation.origin import origin
from cobalt.evaluation.programs import programs_of
from cobalt.evaluation.summary import summarize
from cobalt.files import replacing
from cobalt.manifest import read_manifest
from cobalt.output import refuse_overwriting
from cobalt.rows import INPUT_HELP, Row, Rows, UniqueIds, open_rows

SUFFIX = ".eval"
_SCORER, _HEADLINE = "hidden_tests", "pass_at_1"
_METRICS = (_HEADLINE, "stderr", "ci95_low", "ci95_high")
_STOPS = {"stop": "stop", "length": "max_tokens", "context_overflow": "model_length"}
_TOKENS = ("prompt_tokens", "completion_tokens")
_LABELS = ("difficulty", "group", "platform", "contest_date", "question_title")


def write_log(source: Rows, output: Path) -> dict[str, Any]:
    """Replace `output` (`.eval`) by a log of evaluated rows, of dialogues or of first programs; returns their
    statistics (`summarize`), whose figures the log has.

    Sample `id` and `epoch` (from 1) are the task and its sample; its score `turn_T` (from 1) is C for a
    program that passed every hidden test, else I, with the pass rates in [0, 1] as metadata, and is not there
    for a program without a verdict. Metrics of each turn: Pass@1, its standard error and 95 % interval (the
    wider of those by task and by group), not there where they are not defined. Raises InputError, with
    file, line and field, for rows of another kind.
    """
    refuse_overwriting(source.paths, output)
    if output.suffix != SUFFIX:
        raise InputError(f"--out {output}: the name of a log must end in {SUFFIX}")
    path = source.path or Path(source.name)
    run, unique, summaries = EvaluatedRun(path.stem, path), UniqueIds(), list[Row]()
    model = origin(path).model or "unknown"
    with replacing(output) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as log:
        for where, row in source:
            outcome = run.add(row, where)
            unique({"id": str(outcome.id)}, where)  # they name files of the archive
            for sample in _samples(row, outcome, where, model):
                log.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", _json(sample))
                sample |= {"completed": True, "message_count": len(sample.pop("messages"))}
                del sample["output"]
                summaries.append(sample)
        run.refuse_empty()
        found = summarize(list(run.outcomes.values()))
        header = _header(path, source, run, found, model, len(summaries))
        log.writestr("summaries.json", _json(summaries))
        log.writestr("header.json", _json(header))
    return found


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")  # its reader takes no half pairs


def _samples(row: Row, outcome: Outcomes, where: str, model: str) -> Iterator[Row]:
    """The samples of a task, as the log has them."""
    programs = programs_of(row, where)
    if [len(sample) for sample in programs] != outcome.lengths:
        raise InputError(f"{where}: field 'all_pass_rates' is not [samples][programs] of the dialogues")
    asked = {"role": "user", "content": row.get("instruction") or row.get("question")}
    labels = {name: row[name] for name in _LABELS if row.get(name) is not None}
    first = [[asked, {"role": "assistant", "content": text}] for text in row.get("responses", ())]
    dialogues = row.get("conversations") or first
    for s, codes in enumerate(programs):
        messages = [{"role": each["role"], "content": each["content"] or ""} for each in dialogues[s]]
        used = [each for t in range(len(codes)) if isinstance(each := _at(row.get("usage"), s, t), dict)]
        read, wrote = (sum(each.get(name) or 0 for each in used) for name in _TOKENS)
        tokens = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
        stop = _STOPS.get(_at(row.get("finish_reasons"), s, len(codes) - 1), "unknown")
        spoken = [each for each in messages if each["role"] == "assistant"]
        output = {"choices": [{"message": spoken[-1], "stop_reason": stop}], "model": model, "usage": tokens}
        yield {
            "id": outcome.id, "epoch": s + 1, "input": messages[: messages.index(spoken[0])],
            "target": "every hidden test passes", "messages": messages, "turn_count": len(codes),
            "output": output, "model_usage": {model: tokens}, "metadata": labels,
            "scores": dict(_scores(outcome, s, codes)),
        }  # fmt: skip


def _at(table: Any, s: int, t: int) -> Any:
    """An entry of a [turn][sample] table, or of a [sample] one; None where it is not there."""
    with contextlib.suppress(TypeError, IndexError, KeyError):
        return table[t][s] if isinstance(table[t], list) else table[s]
    return None


def _scores(outcome: Outcomes, s: int, codes: list[str | None]) -> Iterator[tuple[str, Row]]:
    for t, share in ((t, share) for t, share in enumerate(outcome.rates[s]) if share is not None):
        public, carried = outcome.public[s][t] if outcome.public else None, t >= len(codes)
        facts = {"hidden_pass_rate": share, "public_pass_rate": public, "status": outcome.status[s][t]}
        said = f"{share:.0%} of the hidden tests passed" + carried * "; the dialogue had ended before"
        score = {"value": "C" if share == 1 else "I", "answer": codes[min(t, len(codes) - 1)] or ""}
        yield f"turn_{t + 1}", {**score, "explanation": said, "metadata": {**facts, "carried": carried}}


def _header(path: Path, source: Rows, run: EvaluatedRun, found: dict[str, Any], model: str, size: int) -> Row:
    known, manifest = origin(path), read_manifest(path) or {}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    times = {"started_at": manifest.get("created", now), "completed_at": manifest.get("updated", now)}
    key, last = source.sha256, f"turn_{run.turns}"
    about = {"recipe": known.recipe, "smoke": known.smoke, "sha256": key}
    spec = {
        "created": times["started_at"], "task": path.stem, "model": model, "metadata": about,
        "dataset": {"name": known.data or path.name, "samples": len(run.outcomes)},
        "eval_id": key[:22], "run_id": key[22:44], "task_id": key[42:], "config": {"epochs": run.samples},
        "packages": {"cobalt": cobalt.__version__}, "headline_metric": {"score": last, "metric": _HEADLINE},
    }  # fmt: skip
    scores = [_result(found, turn) for turn in range(found["turns"])]
    results = {"total_samples": size, "completed_samples": size, "scores": scores}
    return {"version": 2, "status": "success", "eval": spec, "results": results, "stats": times}


def _result(found: dict[str, Any], turn: int) -> Row:
    figures = zip(_METRICS, [found[_HEADLINE][turn], found["se"][turn], *shown(found)[turn]], strict=True)
    metrics = {name: {"name": name, "value": value} for name, value in figures if value is not None}
    judged = found["by_turn"][turn]["programs"]
    return {"name": f"turn_{turn + 1}", "scorer": _SCORER, "metrics": metrics, "scored_samples": judged}


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt inspect`; returns the exit code."""
    flags = parser("Write evaluated rows as a log that `inspect view` opens.", prog="cobalt inspect")
    flags.add_argument("input_file", metavar="FILE", help=f"of eval_multi_turn.py: {INPUT_HELP}")
    flags.add_argument("--out", metavar="LOG", help=f"file to write, *{SUFFIX} (default: beside FILE)")
    args = flags.parse_args(argv)
    output = Path(args.out or Path(args.input_file).with_suffix(SUFFIX))
    found = write_log(open_rows(args.input_file), output)
    rates = ", ".join(map(rate, found[_HEADLINE], shown(found)))
    tell([f"{output}: {found['tasks']} tasks; Pass@1 by turn (%): {rates}"])
    return 0
