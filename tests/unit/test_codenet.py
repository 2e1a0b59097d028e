"""Groups of stored programs from a small tree of CodeNet's layout, and the made-up one of the tiny family."""

import csv
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from test_tiny import run_plainly

from cobalt.data import main as data_main
from cobalt.errors import InputError
from cobalt.prompts import TINY
from cobalt.tasks import codenet, tiny
from cobalt.tasks.codenet import (
    CodenetCounts,
    CodenetSettings,
    build_codenet,
    groups_of,
    main,
    problem_ids,
    statement_of,
)
from cobalt.tasks.submissions import write_tree
from cobalt.training.offline_data import check_groups

HEADER = [
    *("submission_id", "problem_id", "user_id", "date", "language", "original_language", "filename_ext"),
    *("status", "cpu_time", "memory", "code_size", "accuracy"),
]


def tree(root, problems):
    """A CodeNet tree from (status, language, code) per submission; code None leaves the file out."""
    (root / "metadata").mkdir(parents=True)
    (root / "problem_descriptions").mkdir()
    number = 0
    for problem, submissions in problems.items():
        lines = [HEADER]
        for status, language, code in submissions:
            number += 1
            name, ext = f"s{number:09d}", "py" if language == "Python" else "cpp"
            lines.append(
                [name, problem, "u1", "1590000000", language, language, ext, status, "20", "", 9, ""]
            )
            folder = root / "data" / problem / language
            folder.mkdir(parents=True, exist_ok=True)
            if code is not None:
                (folder / f"{name}.{ext}").write_bytes(code.encode("utf-8", "surrogateescape"))
        with open(root / "metadata" / f"{problem}.csv", "w", newline="") as handle:
            csv.writer(handle).writerows(lines)
        page = f"<html><head><title>t</title></head><h1>{problem}</h1><p>Add&nbsp;&lt; two.</p></html>"
        (root / "problem_descriptions" / f"{problem}.html").write_text(page)
    (root / "metadata" / "problem_list.csv").write_text("id,name\n")
    return root


def programs(right, wrong):
    made = [("Accepted", "Python", f"print({i})\n") for i in range(right)]
    return made + [("Wrong Answer", "Python", f"print(-{i + 1})\n") for i in range(wrong)]


def test_groups(tmp_path):
    problems = {"p00001": programs(5, 9), "p00002": programs(1, 9), "p00003": programs(4, 0)}
    root, outs = tree(tmp_path / "net", problems), [tmp_path / f"{name}.parquet" for name in "abc"]
    for out, seed in zip(outs, "001", strict=True):
        assert main(["-i", str(root), "-o", str(out), "--prompts", "tiny", "--seed", seed]) == 0
    a, b, c = (out.read_bytes() for out in outs)
    assert a == b != c
    rows = pq.read_table(outs[0]).to_pylist()
    assert [row["extra_info"]["index"] for row in rows] == ["p00001-0", "p00001-1", "p00001-2", "p00002-0"]
    seen = [item["submission_id"] for row in rows for item in row["completions"]]
    assert len(seen) == len(set(seen)) == 16
    for row in rows:
        assert {item["pass_rate"] for item in row["completions"]} == {0.0, 1.0}
        assert row["prompt"] == TINY.messages(row["extra_info"]["index"][:6] + "\n\nAdd < two.")
        for item in row["completions"]:
            assert item["text"].startswith("```python\nprint(") and item["text"].endswith("\n```")
            assert (item["pass_rate"] == 1.0) == (item["status"] == "Accepted") == ("-" not in item["text"])
            assert item["cpu_time"] == 20
    counts = json.loads(Path(f"{outs[0]}.manifest.json").read_text())["counts"]
    assert counts["groups"] == 4 and counts["programs"] == 28
    assert counts["problems_left_out"] == {"too few right or wrong programs": 1}
    assert data_main(["check", str(outs[0])]) == 0
    # The offline recipe reads them.
    offline = SimpleNamespace(objective="rloo", reward="correctness", clip=None, temperature=1.0, keep=1)
    groups = check_groups(outs[0], SimpleNamespace(cobalt=SimpleNamespace(offline=offline)))
    assert all(abs(sum(group.weights)) < 1e-9 and set(group.rewards) == {0.0, 1.0} for group in groups)


def test_what_is_left_out(tmp_path, monkeypatch):
    odd = [
        ("Accepted", "C++", "int main(){}"),
        ("Waiting", "Python", "print(5)"),
        ("Accepted", "Python", None),
        ("Accepted", "Python", " \n"),
        ("Accepted", "Python", "print('\udcff')"),
        ("Accepted", "Python", "# ```\nprint()"),
        ("Accepted", "Python", "x" * 300),
        ("Accepted", "Python", "print 2"),
        ("Accepted", "Python", "print(0)"),  # a copy of a program below
    ]
    monkeypatch.setattr(codenet, "MAX_LETTERS", 100)
    root = tree(tmp_path / "net", {"p00001": odd + programs(2, 2)})
    assert len(list(groups_of(root, "p00001", CodenetSettings(TINY), counts := CodenetCounts()))) == 1
    assert counts.programs == 12
    # With groups that nothing can fill, every program is looked at.
    list(groups_of(root, "p00001", CodenetSettings(TINY, size=99), counts := CodenetCounts()))
    assert counts.programs_left_out == {
        "status Waiting": 1, "no file": 1, "empty": 1, "not UTF-8": 1, "holds a fence": 1, "too long": 1,
        "a copy": 1, "not Python 3": 1,
    }  # fmt: skip


def test_other_folders_and_broken_metadata(tmp_path):
    out = str(tmp_path / "out.parquet")
    with pytest.raises(InputError, match="is no CodeNet tree"):
        main(["-i", str(tmp_path), "-o", out])
    root = tree(tmp_path / "net", {"p00001": programs(2, 2)})
    path = root / "metadata" / "p00001.csv"
    good = path.read_text()
    for text, message in (
        (good.replace("status", "state", 1), r"p00001\.csv:1: column 'status' is missing"),
        (good + "s000000009,p00001\r\n", r"p00001\.csv:6: has 2 columns"),
        (good.replace("s000000002", "../../etc"), r"p00001\.csv:3: submission_id"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            main(["-i", str(root), "-o", out])
        assert not Path(out).exists()
    with pytest.raises(InputError, match="--group_size must be at least 2"):
        main(["-i", str(root), "-o", out, "--group_size", "1"])
    path.write_text(good)
    assert statement_of(root, "p00001") == "p00001\n\nAdd < two." and statement_of(root, "p99999") is None
    (root / "problem_descriptions" / "p00001.html").unlink()
    with pytest.raises(InputError, match="no problem has 2 Python programs"):
        build_codenet(root, out, CodenetSettings(TINY, size=2))


# --- The tiny family's

TASKS, SUBMISSIONS = 12, 16


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    write_tree(folder, tasks=TASKS, submissions=SUBMISSIONS, seed=3)
    return folder


def verdict(code, tests):
    def late(*_):
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


def test_made_up_verdicts_are_those_of_running_the_programs(root, tmp_path):
    seen = set()
    for (_, _, tests), problem in zip(tiny.draw_specs("train", TASKS, 3), problem_ids(root), strict=True):
        with open(root / "metadata" / f"{problem}.csv", newline="") as handle:
            rows = list(csv.DictReader(handle))
        assert len(rows) == SUBMISSIONS and rows[0]["status"] == "Accepted"
        for row in rows:
            code = (root / "data" / problem / "Python" / f"{row['submission_id']}.py").read_text()
            assert verdict(code, tests) == row["status"], code
            assert (row["status"] == "Time Limit Exceeded") == (int(row["cpu_time"]) >= 2000)
            seen.add(row["status"])
    assert seen == {"Accepted", "Wrong Answer", "Runtime Error", "Compile Error", "Time Limit Exceeded"}
    write_tree(tmp_path, tasks=TASKS, submissions=SUBMISSIONS, seed=3)
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    assert all((tmp_path / each).read_bytes() == (root / each).read_bytes() for each in files)
