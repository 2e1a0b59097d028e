"""Files of a run, and the parts of it that are one process."""

from __future__ import annotations

from cobalt.planning.stages import Plan, Stage
from cobalt.planning.training import Contexts
from cobalt.planning.workload import Sampling, Training


def files(plan: Plan, cut: Contexts, steps: dict[str, float]) -> tuple[float, float]:
    """GB (10^9 bytes) of all files that stay, and of the contexts as JSONL alone."""
    sheet, work = plan.sheet, plan.work
    sheet.section = "disk"
    total = 0.0
    stored: float = 0.0  # bytes of a task's row so far: stages copy what earlier stages wrote
    for each in work.sampling:
        stored = _row(plan, each, stored if each.first_turn > 1 else 0.0)
        copies = 2 if each.hidden_tests else 1  # as sampled, and with the rates of the hidden tests
        total += sheet.put(
            f"{each.name}", "tasks * models * copies * row_bytes / 1e9", "GB", tasks=each.tasks,
            models=each.models, copies=copies, row_bytes=stored,
        )  # fmt: skip
    jsonl = 0.0
    if cut.rows:
        jsonl, parquet = _contexts(plan, cut)
        total += jsonl + parquet
    for given in work.training:
        total += _checkpoints(plan, given, steps[given.name])
    return sheet.put("all files", "sum_of_these", "GB", sum_of_these=total), jsonl


def _row(plan: Plan, given: Sampling, before: float) -> float:
    sheet, a, kind = plan.sheet, plan.a, plan.work.tasks_kind
    characters, made = a[f"{kind}.characters_per_token"], plan.responses[given.max_tokens]
    turns = given.turns - given.first_turn + 1
    task = before or sheet.put(
        f"{given.name}: a task", "statement * characters + 2 * tests * test_bytes", "bytes",
        statement=plan.prompts.first, characters=characters, tests=max(given.tests, a[f"{kind}.tests"]),
        test_bytes=a[f"{kind}.test_bytes"],
    )  # fmt: skip
    dialogue = plan.prompts.first + given.turns * plan.prompts.growth if given.turns > 1 else 0.0
    return sheet.put(
        f"{given.name}: a row",
        "before + escapes * samples * "
        "(turns * (response * characters + tests * verdict_bytes) + dialogue * characters)", "bytes",
        before=task, escapes=a["disk.json_overhead"], samples=given.samples, turns=turns, response=made.mean,
        characters=characters, tests=given.tests, verdict_bytes=a[f"{kind}.verdict_bytes"], dialogue=dialogue,
    )  # fmt: skip


def _contexts(plan: Plan, cut: Contexts) -> tuple[float, float]:
    a, kind = plan.a, plan.work.tasks_kind
    jsonl = plan.sheet.put(
        "contexts (JSONL)",
        "rows * (escapes * (first + shown * growth) * characters + tests * test_bytes) / 1e9", "GB",
        rows=cut.rows, escapes=a["disk.json_overhead"], first=plan.prompts.first, shown=cut.shown,
        growth=plan.prompts.growth, characters=a[f"{kind}.characters_per_token"], tests=a[f"{kind}.tests"],
        test_bytes=a[f"{kind}.test_bytes"],
    )  # fmt: skip
    # A Parquet row holds the conversation as `conversation`, `prompt` and in `extra_info`, the tests twice.
    parquet = plan.sheet.put(
        "Parquet (conversation three times, tests twice)", "copies * JSONL * share", "GB",
        copies=plan.a["disk.parquet_copies"],
        JSONL=jsonl, share=plan.a["disk.parquet_share"],
    )  # fmt: skip
    return jsonl, parquet


def _checkpoints(plan: Plan, given: Training, steps: float) -> float:
    sheet, a = plan.sheet, plan.a
    kept = steps / given.save_every if given.save_every else 1.0
    if given.keep is not None:
        kept = min(kept, float(given.keep))
    kept = sheet.put(f"{given.name}: checkpoints kept, the last included", "max(1, ceil(saved))", saved=kept)
    trained = a["disk.checkpoint_bytes"] * (a["disk.adapters"] if given.lora else 1.0)
    return sheet.put(
        f"{given.name}: checkpoints, and the exports model/ and best/",
        "params_B * (kept * (checkpoint_bytes + export_bytes) + 2 * export_bytes)", "GB",
        params_B=plan.device.model.params_b, kept=kept, checkpoint_bytes=trained,
        export_bytes=a["disk.export_bytes"],
    )  # fmt: skip


def single_processes(plan: Plan, cut: Contexts, jsonl: float) -> list[Stage]:
    """Contexts, Parquet and report: stages without parallel work."""
    sheet, a, work = plan.sheet, plan.a, plan.work
    sheet.section = "one process each"
    stages = []
    if cut.rows:
        samples = max((each.samples for each in work.sampling if each.first_turn > 1), default=0)
        built = sheet.put(
            "contexts", "tasks * samples * ms / 1000 / 3600", "h", tasks=work.context_tasks, samples=samples,
            ms=a["contexts.ms"],
        )  # fmt: skip
        written = sheet.put(
            "Parquet", "1e9 * JSONL_GB / bytes_per_s / 3600", "h", JSONL_GB=jsonl,
            bytes_per_s=a["contexts.bytes_per_s"],
        )  # fmt: skip
        stages = [Stage("contexts", built), Stage("parquet", written)]
    shown = [each for each in work.sampling if each.hidden_tests and each.first_turn == 1]
    programs = sum(each.dialogues * each.turns for each in shown)
    report = sheet.put("report", "programs * ms / 1000 / 3600", "h", programs=programs, ms=a["report.ms"])
    return [*stages, Stage("report", report)]
