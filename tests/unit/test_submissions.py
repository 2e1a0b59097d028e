"""Made-up submissions of the tiny family: CodeNet's layout, and the verdicts are those of running them."""

import csv
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from test_tiny import run_plainly

from cobalt.prompts import TINY
from cobalt.tasks import tiny
from cobalt.tasks.codenet_tree import CodenetCounts, CodenetSettings, groups_of, problem_ids
from cobalt.tasks.submissions import write_tree

TASKS, SUBMISSIONS = 12, 16


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    write_tree(folder, tasks=TASKS, submissions=SUBMISSIONS, seed=3)
    return folder


def submissions(root: Path, problem: str) -> list[dict[str, str]]:
    with open(root / "metadata" / f"{problem}.csv", newline="") as handle:
        return list(csv.DictReader(handle))


def verdict(code: str, tests: list[tuple[str, str]]) -> str:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        right = all(run_plainly(code, given).strip() == out for given, out in tests)
    except SyntaxError:
        return "Compile Error"
    except TimeoutError:
        return "Time Limit Exceeded"
    except Exception:
        return "Runtime Error"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return "Accepted" if right else "Wrong Answer"


def test_verdicts_are_those_of_running_the_programs(root):
    seen = set()
    for (_, _, tests), problem in zip(tiny.draw_specs("train", TASKS, 3), problem_ids(root), strict=True):
        rows = submissions(root, problem)
        assert len(rows) == SUBMISSIONS and rows[0]["status"] == "Accepted"
        for row in rows:
            code = (root / "data" / problem / "Python" / f"{row['submission_id']}.py").read_text()
            assert verdict(code, tests) == row["status"], code
            assert (row["status"] == "Time Limit Exceeded") == (int(row["cpu_time"]) >= 2000)
            seen.add(row["status"])
    assert seen == {"Accepted", "Wrong Answer", "Runtime Error", "Compile Error", "Time Limit Exceeded"}


def test_groups_pose_the_tasks_and_hold_right_and_wrong_ones(root):
    counts = CodenetCounts()
    statements = [row["instruction"] for row in tiny.draw_tasks("train", TASKS, 3)]
    for statement, problem in zip(statements, problem_ids(root), strict=True):
        for group in groups_of(root, problem, CodenetSettings(TINY), counts):
            assert group["prompt"] == TINY.messages(statement)
            assert {item["pass_rate"] for item in group["completions"]} == {0.0, 1.0}
            assert all(item["parses"] is (item["status"] != "Compile Error") for item in group["completions"])
    assert counts.groups + sum(counts.problems_left_out.values()) == TASKS and counts.groups > TASKS / 2


def test_the_same_seed_makes_the_same_tree(root, tmp_path):
    for seed in (3, 4):
        write_tree(tmp_path / str(seed), tasks=TASKS, submissions=SUBMISSIONS, seed=seed)
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    assert all((tmp_path / "3" / each).read_bytes() == (root / each).read_bytes() for each in files)
    page = "problem_descriptions/p00000.html"
    assert (tmp_path / "4" / page).read_bytes() != (root / page).read_bytes()
