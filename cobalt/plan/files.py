"""Files of a run, and the parts of it that are one process."""

from __future__ import annotations

from cobalt.plan.basis import Plan, Stage
from cobalt.plan.training import Contexts
from cobalt.plan.workload import Sampling, Training


def files(plan: Plan, cut: Contexts, steps: dict[str, float]) -> tuple[float, float]:
    """GB (10^9 bytes) of all files that stay, and of the contexts as JSONL alone."""
    sheet, work = plan.sheet, plan.work
    sheet.section = "disk"
    total = stored = jsonl = (
        0.0  # `stored`: bytes of a task's row so far: stages copy what earlier ones wrote
    )
    for each in work.sampling:
        stored = _row(plan, each, stored if each.first_turn > 1 else 0.0)
        copies = 2 if each.hidden_tests else 1  # as sampled, and with the rates of the hidden tests
        formula = "tasks * models * copies * row_bytes / 1e9"
        total += sheet.put(each.name, formula, "GB", each, copies=copies, row_bytes=stored)
    if cut.rows:
        texts = plan.of_tasks("characters_per_token", "tests", "test_bytes")
        jsonl = sheet.put(
            "contexts (JSONL)",
            "rows * (disk.json_overhead * (first + shown * growth) * characters_per_token + "
            "tests * test_bytes) / 1e9", "GB", cut, plan, **texts,
        )  # fmt: skip
        # A Parquet row has the conversation as `conversation`, `prompt` and in `extra_info`, the tests twice.
        total += jsonl + sheet.put(
            "Parquet (conversation three times, tests twice)",
            "disk.parquet_copies * JSONL * disk.parquet_share", "GB", JSONL=jsonl,
        )  # fmt: skip
    for given in work.training:
        total += _checkpoints(plan, given, steps[given.name])
    return sheet.put("all files", "sum_of_these", "GB", sum_of_these=total), jsonl


def _row(plan: Plan, given: Sampling, before: float) -> float:
    put, made = plan.sheet.put, plan.responses[given.max_tokens]
    texts = plan.of_tasks("characters_per_token", "test_bytes", "verdict_bytes")
    task = before or put(
        f"{given.name}: a task", "first * characters_per_token + 2 * tests * test_bytes", "bytes", plan,
        tests=max(given.tests, plan.of_tasks("tests")["tests"]), **texts,
    )  # fmt: skip
    dialogue = plan.first + given.turns * plan.growth if given.turns > 1 else 0.0
    return put(
        f"{given.name}: a row",
        "before + disk.json_overhead * samples * (turns * (mean_response * characters_per_token + "
        "tests * verdict_bytes) + dialogue * characters_per_token)", "bytes", given, made, before=task,
        turns=given.turns - given.first_turn + 1, dialogue=dialogue, **texts,
    )  # fmt: skip


def _checkpoints(plan: Plan, given: Training, steps: float) -> float:
    put, a = plan.sheet.put, plan.a
    saved = steps / given.save_every if given.save_every else 1.0
    if given.keep is not None:
        saved = min(saved, float(given.keep))
    kept = put(f"{given.name}: checkpoints kept, the last included", "max(1, ceil(saved))", saved=saved)
    trained = a["disk.checkpoint_bytes"] * (a["disk.adapters"] if given.lora else 1.0)
    return put(
        f"{given.name}: checkpoints, and the exports model/ and best/",
        "params_b * (kept * (checkpoint_bytes + disk.export_bytes) + 2 * disk.export_bytes)", "GB",
        plan.device.model, kept=kept, checkpoint_bytes=trained,
    )  # fmt: skip


def single_processes(plan: Plan, cut: Contexts, jsonl: float) -> list[Stage]:
    """Contexts, Parquet and report: stages without parallel work."""
    sheet, work = plan.sheet, plan.work
    sheet.section = "one process each"
    stages = []
    if cut.rows:
        samples = max((each.samples for each in work.sampling if each.first_turn > 1), default=0)
        formula = "context_tasks * samples * contexts.ms / 1000 / 3600"
        stages.append(Stage("contexts", sheet.put("contexts", formula, "h", work, samples=samples)))
        formula = "1e9 * JSONL_GB / contexts.bytes_per_s / 3600"
        stages.append(Stage("parquet", sheet.put("Parquet", formula, "h", JSONL_GB=jsonl)))
    shown = [each for each in work.sampling if each.hidden_tests and each.first_turn == 1]
    programs = sum(each.dialogues * each.turns for each in shown)
    report = sheet.put("report", "programs * report.ms / 1000 / 3600", "h", programs=programs)
    return [*stages, Stage("report", report)]
