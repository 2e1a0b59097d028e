"""`report.html`: one static page without outside references, made from `results.json` and training curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from cobalt.files import atomic_write
from cobalt.report import plots, words

LABELS = {"reference": "before", "cobalt": "Cobalt", "control": "single-turn"}
_SECTION = "taught"  # the heading of the model card that says what the reference model was taught


def write(
    path: Path,
    results: Mapping[str, Any],
    *,
    curves: Mapping[str, Sequence[Mapping[str, float]]],
    model_card: str | None = None,
    card_link: str | None = None,
    details: str | None = None,
    further: Mapping[str, str] | None = None,
) -> None:
    """Write the page to `path`.

    `results` as in `results.json`; `curves`: for `cobalt` and `control` (single-turn training) points with
    `step` and `solved` (share of training programs that pass every test); `model_card`: the reference's
    README in Markdown, whose section on what it was taught is quoted; `card_link` its address from the page;
    `details` that of the report with all charts, tables and trajectories, `further` those of reports on other
    tasks, by name.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("cobalt.report", "static"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"percent": words.percent, "interval": words.interval, "points": words.points}
    page = environment.get_template("page.html").render(
        results=results,
        headline=words.headline(results),
        style=Markup(_static("page.css")),
        script=Markup(_static("page.js")),
        data=Markup(_inline_json(results)),
        drawings={name: Markup(svg) for name, svg in _drawings(results, curves).items()},
        trained=words.trained_name(results),
        verdict=words.verdict,
        slot_name=words.slot_name,
        control_name=lambda name: words.control_name(name, results["turns"]),
        taught=Markup(_markdown(taught(model_card))) if model_card else None,
        card_link=card_link,
        details=details,
        further=further or {},
        changed=_changed,
    )
    atomic_write(path, page)


def arms_of(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What is compared in `results.json`: name to `pass_at_1` and `ci95`, by turn."""
    arms: dict[str, Mapping[str, Any]] = {
        name: {key: results[key][name] for key in ("pass_at_1", "ci95")} for name in ("reference", "cobalt")
    }
    single = results["controls"].get("single_turn_training")
    return arms | {"control": single} if single else arms


def taught(model_card: str) -> str:
    """The section of a model card whose heading speaks of what was taught, without the heading; else all of
    it.
    """
    lines = _body(model_card).splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("#")]
    for i in heads:
        if _SECTION in lines[i].lower():
            level = len(lines[i]) - len(lines[i].lstrip("#"))
            ends = (j for j in heads if j > i and len(lines[j]) - len(lines[j].lstrip("#")) <= level)
            return "\n".join(lines[i + 1 : next(ends, len(lines))]).strip()
    return "\n".join(lines).strip()


def _body(model_card: str) -> str:
    """A model card without its YAML header."""
    if model_card.startswith("---\n"):
        _, _, rest = model_card[4:].partition("\n---\n")
        return rest
    return model_card


def _drawings(
    results: Mapping[str, Any], curves: Mapping[str, Sequence[Mapping[str, float]]]
) -> dict[str, str]:
    labels = LABELS | {"cobalt": words.trained_name(results)}
    drawn = {"turns": plots.pass_by_turn(arms_of(results), labels)}
    shown = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if shown:
        drawn["training"] = plots.training_curve(shown, labels)
    if results["slots"]:
        rows = [
            (f"{words.slot_name(row)} ({row['n']})", row["points"], row["ci95"]) for row in results["slots"]
        ]
        drawn["slots"] = plots.gains(rows, "Difference at the last turn by vague slot", "slots")
    return drawn


def _static(name: str) -> str:
    return (resources.files("cobalt.report") / "static" / name).read_text(encoding="utf-8")


def _inline_json(value: Any) -> str:
    """JSON that can stand inside a <script> element whatever its texts contain."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    rendered: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return rendered


def _changed(turn: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[tuple[str, bool]]:
    """Lines of a turn's program, and whether each is new against the program before."""
    code = turn["code"]
    if code is None:
        return []
    old = set((before or {}).get("code", "").splitlines()) if before and before["code"] is not None else None
    return [(line, old is not None and line not in old) for line in code.splitlines()]
