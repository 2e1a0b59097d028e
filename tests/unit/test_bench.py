"""The bench of methods: accounts, budgets, the order of the work, resumption after kill -9, tables."""

import gzip
import json
import os
import runpy
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cobalt.bench.cli import main
from cobalt.bench.page import BEGIN, END, page, write_page
from cobalt.bench.record import take_over, write_record
from cobalt.bench.schedule import Bench, Plan
from cobalt.bench.spent import Ledger, Spent, account, programs, reached
from cobalt.bench.table import Results, draw, markdown
from cobalt.errors import InputError

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "tiny.yaml"
START = Spent(0, 0, 100.0, 50.0)


def line(step, cpu_s, launch=1, made=128):
    return {"step": step, "launch": launch, "programs": made, "cpu_s": cpu_s, "wall_s": 2.0}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], [100.0]),
        # start-up (40 s) is nobody's: the first step costs what the others do
        ([line(1, 45.0), line(2, 49.0), line(3, 55.0)], [100.0, 105.0, 109.0, 115.0]),
        # a second launch has a start-up too
        ([line(1, 45.0), line(2, 49.0), line(3, 60.0, 2), line(4, 66.0, 2)], [100, 105, 109, 114, 120]),
        # the line of step 2 was lost by a kill
        ([line(1, 45.0), line(3, 60.0, 2), line(4, 66.0, 2)], [100, 106, 112, 118, 124]),
        # nothing but first steps: no step's cost is known
        ([line(1, 45.0)], [100.0, 100.0]),
    ],
)
def test_what_steps_cost_without_start_up(lines, expected):
    found = account(lines, START)
    assert [each.cpu_s for each in found] == expected
    assert [each.programs for each in found] == [128 * step for step in range(len(expected))]


@pytest.mark.parametrize(
    ("limit", "saved", "step"),
    [
        ({"programs": 384}, [1, 2, 3, 4], 3),
        ({"programs": 383}, [1, 2, 3, 4], 2),
        ({"programs": 1000}, [2, 4], 4),
        ({"cpu_s": 109.0}, [1, 2, 3, 4], 2),
        ({"cpu_s": 115.0}, [2, 4], 2),
        ({"cpu_s": 99.0}, [1, 2], 0),  # its data alone cost more: the reference
    ],
)
def test_the_checkpoint_that_a_limit_allows(limit, saved, step):
    spent = account([line(1, 45.0), line(2, 49.0), line(3, 55.0), line(4, 57.0)], START)
    assert reached(spent, saved, **limit).step == step


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({}, 128),
        ({"num_turns/mean": 6.0}, 384),
        ({"num_turns/mean": 5.98}, 383),
        ({"rollout/programs": 500.0}, 500),
    ],
)
def test_programs_of_a_step(metrics, expected):
    assert programs(metrics, 128) == expected


def test_a_ledger_reads_launches_and_forgets_steps_after_the_checkpoint(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    step = {"timing_s/step": 3.0}
    metrics.write_text("".join(json.dumps({"step": n, "data": step}) + "\n" for n in (1, 2, 3)) + '{"st')
    ledger = Ledger(tmp_path / "steps.jsonl", 8, 0)
    assert ledger.look(metrics, lambda: 10.0) and not ledger.look(metrics, lambda: 11.0)
    assert [each["programs"] for each in ledger.lines] == [8, 8, 8]
    again = Ledger(tmp_path / "steps.jsonl", 8, 2)
    assert [each["step"] for each in again.lines] == [1, 2] and again.launch == 2


def test_cpu_seconds_count_children_that_ended_and_those_that_lost_their_parent():
    code = """
        import os, subprocess, sys, time
        from cobalt.bench.spent import adopt, cpu_seconds
        adopt()
        burn = "import time\\nwhile time.process_time() < 0.5: pass\\n"
        before = cpu_seconds()
        subprocess.run([sys.executable, "-c", burn])  # waited for
        burn += "time.sleep(60)"
        daemon = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
        subprocess.run([sys.executable, "-c", daemon])  # its parent ends at once
        deadline = time.monotonic() + 20
        while cpu_seconds() - before < 1.0 and time.monotonic() < deadline:
            time.sleep(0.05)
        print(cpu_seconds() - before)
        for child in os.popen(f"ps -o pid= --ppid {os.getpid()}").read().split():
            try: os.kill(int(child), 9)
            except OSError: pass
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT
    )
    assert 1.0 <= float(done.stdout) < 2.5, done


FAKE = """
import json, os, sys, time
from pathlib import Path
from cobalt.bench.trial import Request
from cobalt.files import atomic_write
given = json.loads(Path(sys.argv[1]).read_text())
request = Request(**{**given, "settings": tuple(given["settings"]), "sets": tuple(given["sets"])})
work = Path(request.work)
with open(work.parent.parent / "starts", "a") as log:
    log.write(f"{request.method} {request.seed} {request.choice}\\n")
if request.method == "verpo":
    raise SystemExit("error: it diverged")
steps = work / "fake"
for step in range(len(steps.read_text()) if steps.exists() else 0, 4):
    time.sleep(float(os.environ.get("STEP_S", "0")))
    steps.write_text("x" * (step + 1))
    with open(work.parent.parent / "made", "a") as log:
        log.write(f"{request.method} {request.seed} {step}\\n")
right = {"mt_grpo": 1.0}.get(request.method, request.rate * 1000)
tasks = {name: {str(n): [right] * 3 for n in range(12)} for name in request.sets}
at = {"step": 4, "programs": request.samples, "cpu_s": 90.0 + request.seed, "wall_s": 80.0, "tasks": tasks}
both = request.anchor or request.seconds is not None
with request.job() as job:
    found = {**given, "basis": request.basis(job), "at": {"samples": at, **({"seconds": at} if both else {})}}
atomic_write(request.result, json.dumps({**found, "minutes": 1.0, "ended": "2026-01-01T00:00:00Z"}))
"""


def plan(out, *methods, **more):
    return Plan(out, methods, CONFIG, **{"seeds": 2, "steps": 2, **more})


@pytest.fixture
def fake(tmp_path):
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return str(script)


def test_rates_are_chosen_then_the_anchor_sets_the_budget_and_a_failure_stops_nobody(tmp_path, fake):
    said = []
    bench = Bench(plan(tmp_path / "b", "verpo", "mt_grpo", "cobalt"), say=said.append, trial=[fake])
    assert bench.left()[1:] == (6, 6)
    assert not bench.run()  # verpo failed
    starts = (tmp_path / "b" / "starts").read_text().split("\n")
    assert sorted(starts)[1:] == sorted(
        [f"{name} 0 True" for name in ("verpo", "mt_grpo", "cobalt") for _ in range(2)]
        + [f"{name} {seed} False" for name in ("mt_grpo", "cobalt") for seed in (0, 1)]
    )
    assert bench.rate("cobalt") == 4e-4  # better on development tasks
    assert bench.rate("mt_grpo") == 1e-4  # of equals the first
    assert bench.seconds() == 90.0
    found = json.loads((tmp_path / "b" / "trainings" / "mt_grpo-seed1.json").read_text())
    assert found["seconds"] == 90.0 and found["samples"] == 2 * 16 * 8 and not found["anchor"]
    assert any("verpo: rate 0.0001 FAILED: it diverged" in text for text in said)
    again = Bench(bench.plan, say=said.append, trial=[fake])
    assert again.left()[1:] == (2, 2)  # only what failed is tried again


def test_another_machine_goes_on_from_a_record(tmp_path, fake):
    out, other, record = tmp_path / "b", tmp_path / "other", tmp_path / "page.json.gz"
    bench = Bench(plan(out, "verpo", "cobalt"), say=print, trial=[fake])
    bench.run()
    about = {"methods": ["verpo", "cobalt", str(tmp_path / "mine.yaml")], "seeds": 2}
    (out / "bench.json").write_text(json.dumps(about))
    (out / "reference.json").write_text(json.dumps({"tasks": {}, "groups": {}}))
    write_record(out, record)
    assert str(tmp_path) not in gzip.decompress(record.read_bytes()).decode()
    assert take_over(record, other) == 4 and take_over(record, other) == 0
    again = Bench(plan(other, "verpo", "cobalt"), say=print, trial=[fake])
    assert again.left()[1:] == (2, 2) and again.seconds() == 90.0  # what failed is not in a record
    assert Bench(plan(other, "cobalt", steps=3), say=print).left()[1:] == (2, 2)  # other samples: none of it
    record.write_bytes(b"{}")
    with pytest.raises(InputError, match="no record of a bench"):
        take_over(record, other)


def test_without_the_anchor_there_is_no_budget_but_there_are_trainings(tmp_path, fake):
    bench = Bench(plan(tmp_path, "verpo", "mt_grpo", seeds=1, rates=(1e-4,)), say=print, trial=[fake])
    assert bench.plan.anchor == "verpo"
    assert not bench.run() and bench.seconds() is None
    assert json.loads((tmp_path / "trainings" / "mt_grpo-seed0.json").read_text())["seconds"] is None


def test_no_training_begins_after_max_hours(tmp_path, fake):
    bench = Bench(plan(tmp_path, "cobalt", rates=(1e-4,)), max_hours=1e-9, say=print, trial=[fake])
    assert not bench.run()
    assert not (tmp_path / "starts").exists()


def test_killed_by_kill_9_it_keeps_what_ended_and_goes_on_from_what_was_saved(tmp_path, fake):
    out = tmp_path / "b"
    code = f"""
        from pathlib import Path
        from cobalt.bench.schedule import Bench, Plan
        given = Path({str(out)!r}), ("cobalt", "mt_grpo"), Path({str(CONFIG)!r})
        given = Plan(*given, seeds=2, steps=2, rates=(1e-4,))
        raise SystemExit(not Bench(given, trial=[{fake!r}]).run())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    slow = subprocess.Popen(command, env={**os.environ, "STEP_S": "0.3"}, cwd=ROOT)
    made = out / "made"
    deadline = time.monotonic() + 60
    while not made.exists() or len(made.read_text().splitlines()) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(slow.pid, signal.SIGKILL)
    slow.wait()
    ended = {path.name: path.read_bytes() for path in (out / "trainings").glob("*.json")}
    assert "cobalt-seed0.json" in ended
    time.sleep(1.5)  # what it had started may end a step
    assert subprocess.run(command, cwd=ROOT).returncode == 0
    assert {name: (out / "trainings" / name).read_bytes() for name in ended} == ended
    steps = made.read_text().splitlines()
    assert len({*steps}) == 16 and len(steps) <= 18, steps  # at most the steps under way twice


def bench_folder(out, seeds, *, asked=5, error=False):
    """Results of two methods: `cobalt` solves 3 of 4 tasks at the last turn, `mt_grpo` one half."""
    out.mkdir()
    hashes = dict.fromkeys(("family", "reference", "configuration"), "0123456789ab")
    about = {"methods": ["cobalt", "mt_grpo"], "seeds": asked, "samples": 384, "hashes": hashes}
    about |= {"command": "cobalt bench methods", "versions": {"cobalt": "1"}, "machine": "2 cores"}
    (out / "bench.json").write_text(json.dumps(about))
    tasks = {str(n): [0.0, 0.25, 0.25] for n in range(40)}
    groups = {str(n): str(n // 2) for n in range(40)}
    (out / "reference.json").write_text(
        json.dumps({"tasks": {"heldout": tasks}, "groups": {"heldout": groups}})
    )
    (out / "trainings").mkdir()
    for method, share in (("cobalt", 0.75), ("mt_grpo", 0.5)):
        for seed in range(seeds):
            own = {str(n): [0.0, 0.5, float(n < 40 * share + seed)] for n in range(40)}
            at = {"step": 3, "programs": 384, "cpu_s": 100.0, "wall_s": 80.0, "tasks": {"heldout": own}}
            made = {"method": method, "seed": seed, "rate": 1e-4, "seconds": 100.0, "ended": "2026-01-02T"}
            both = {"samples": at, "seconds": at | {"cpu_s": 99.0}}
            (out / "trainings" / f"{method}-seed{seed}.json").write_text(json.dumps({**made, "at": both}))
    if error:
        (out / "trainings" / "verpo-seed0.json").write_text(json.dumps({"error": "it diverged"}))
    return out


def test_the_table_of_what_is_there(tmp_path):
    found = markdown(Results.read(bench_folder(tmp_path / "b", 2)), "samples", "heldout").splitlines()
    assert found[2].startswith("| reference |  |  | 0.0 | 25.0 | 25.0 |")
    cells = [each.strip() for each in found[3].split("|")]
    assert cells[1:4] == ["`cobalt`", "0.0001", "2 of 5"]
    assert cells[7].startswith("+51.2 [") and not cells[8]  # 30 and 31 of 40, minus a quarter
    mt = [each.strip() for each in found[4].split("|")]
    assert mt[8].startswith("-25.0 [") and mt[9:13] == ["384", "3", "100", "80"]


def test_one_training_has_no_interval_and_a_page_is_written_between_its_marks(tmp_path):
    out = bench_folder(tmp_path / "b", 1, asked=1, error=True)
    results = Results.read(out)
    assert "[cannot tell]" in markdown(results, "seconds", "heldout")
    text = page(results)
    assert "verpo-seed0: it diverged" in text and "384 programs" in text and "2 of 2" in text
    target = tmp_path / "page.md"
    target.write_text(f"# Title\n{BEGIN}\nold\n{END}\nlast\n")
    write_page(target, text)
    assert target.read_text() == f"# Title\n{BEGIN}\n{text}\n{END}\nlast\n"
    target.write_text("# Title\n")
    with pytest.raises(InputError, match="has no lines"):
        write_page(target, text)
    with pytest.raises(InputError, match="no bench of ours"):
        Results.read(tmp_path)
    assert draw(results, tmp_path / "p.png") and (tmp_path / "p.png").stat().st_size > 10_000


def test_a_page_tells_accepted_wrong_tests_and_each_slot_alone(tmp_path):
    out = bench_folder(tmp_path / "b", 2)
    reference = json.loads((out / "reference.json").read_text())
    slots = {str(n): ["constant"] if n < 20 else [] if n < 30 else ["constant", "format"] for n in range(40)}
    reference |= {"slots": {"heldout": slots}, "hacks": {"wrong": {str(n): [4, n % 2] for n in range(40)}}}
    reference["tasks"]["wrong"] = reference["tasks"]["heldout"]
    reference["groups"]["wrong"] = reference["groups"]["heldout"]
    (out / "reference.json").write_text(json.dumps(reference))
    for path in (out / "trainings").glob("*.json"):
        made = json.loads(path.read_text())
        at = made["at"].pop("seconds")
        made["at"]["samples"] = at | {
            "tasks": dict.fromkeys(("heldout", "wrong"), at["tasks"]["heldout"]),
            "hacks": {"wrong": {str(n): [2, made["method"] == "cobalt"] for n in range(40)}},
        }
        path.write_text(json.dumps(made))
    text = page(Results.read(out))
    assert "Equal seconds" not in text
    shown = [line for line in text.splitlines() if "12.5 [" in line and line.startswith("| reference |  |")]
    assert len(shown) == 1  # 20 of 160, with an interval over tasks
    ours = next(line for line in text.splitlines() if line.startswith("| `cobalt` | 50.0, 50.0 | 50.0 ["))
    other = next(line for line in text.splitlines() if line.startswith("| `mt_grpo` | 0.0, 0.0 | 0.0 ["))
    assert "| +37.5 [" in ours and "| -12.5 [" in other and "| -50.0 [" in other
    assert draw(Results.read(out), tmp_path / "p.png")
    by_slot = text[text.index("by what is left open, set `heldout`") :]
    assert "| method | constant (20) | 2 slots (10) |" in by_slot
    assert "| reference | 25.0 | 25.0 |" in by_slot and "| `cobalt` | +75.0 [" in by_slot
    assert "| -20.0 [" in by_slot  # of the ten that leave both open 0 and 1 are right


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "there is no recipe 'nosuch'"),
        (["mine.yaml"], "mine.yaml: there is no such file"),
        (["cobalt", "--config", "no.yaml"], "cannot read no.yaml"),
        (["cobalt", "--set", "evaluate.samplse=3"], "samplse"),
        (["cobalt", "--set", "tasks.family=taco"], "tasks.source"),
    ],
)
def test_wrong_words_are_refused_before_anything_starts(words, said, tmp_path):
    with pytest.raises(InputError, match=said):
        main(["methods", *words, "--config", str(CONFIG), "--out", str(tmp_path / "b"), "--dry_run"]
             if "--config" not in words else ["methods", *words, "--out", str(tmp_path / "b")])  # fmt: skip
    assert not (tmp_path / "b").exists()


def test_a_dry_run_of_a_method_of_ones_own_prints_the_plan_and_writes_nothing(tmp_path, capsys):
    own = tmp_path / "mine.yaml"
    own.write_text("# @package _global_\ndefaults:\n  - cobalt\ncobalt:\n  recipe: mine\n")
    words = [
        "methods",
        str(own),
        "cobalt",
        "--config",
        str(CONFIG),
        "--seeds",
        "3",
        "--out",
        str(tmp_path / "b"),
    ]
    assert main([*words, "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "2 methods x 3 seeds: mine, cobalt" in out and "6 trainings and 4 for the choice" in out
    assert not (tmp_path / "b").exists()


def test_intervals_over_trainings_and_tasks_cover_where_the_plain_bootstrap_does_not():
    simulated = runpy.run_path(str(ROOT / "benchmarks" / "intervals.py"))["crossed_table"]

    def shares(*case):
        """Of intervals that hold the truth, ours and the plain bootstrap's."""
        cells = list(simulated(60, 0, cases=[case]))[-1].split("|")
        return float(cells[4]), float(cells[6])

    assert shares(5, 0.03, 0.5)[0] >= 93
    assert shares(3, 0.1, 0.5)[0] >= 91
    ours, plain = shares(2, 0.1, 0.5)
    assert ours >= 93 and plain < 90
