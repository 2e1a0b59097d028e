"""Groups of stored programs from a small tree of CodeNet's layout."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cobalt.data import main as data_main
from cobalt.errors import InputError
from cobalt.prompts import TINY
from cobalt.tasks.codenet import build_codenet, main
from cobalt.tasks.codenet_tree import CodenetCounts, CodenetSettings, groups_of, statement_of

sys.path.append(str(Path(__file__).parent))
from data_rows import read

HEADER = [
    *("submission_id", "problem_id", "user_id", "date", "language", "original_language", "filename_ext"),
    *("status", "cpu_time", "memory", "code_size", "accuracy"),
]


def tree(root: Path, problems: dict[str, list[tuple[str, str, str | None]]]) -> Path:
    """A CodeNet tree from (status, language, code) per submission; code None leaves the file out."""
    (root / "metadata").mkdir(parents=True)
    (root / "problem_descriptions").mkdir()
    number = 0
    for problem, submissions in problems.items():
        with open(root / "metadata" / f"{problem}.csv", "w", newline="") as handle:
            lines = csv.writer(handle)
            lines.writerow(HEADER)
            for status, language, code in submissions:
                number += 1
                name, ext = f"s{number:09d}", "py" if language == "Python" else "cpp"
                version = f"{language} (3.8)"
                size = len(code or "")
                lines.writerow(
                    [name, problem, "u1", "1590000000", language, version, ext, status, "20", "", size, "4/4"]
                )
                folder = root / "data" / problem / language
                folder.mkdir(parents=True, exist_ok=True)
                if code is not None:
                    (folder / f"{name}.{ext}").write_bytes(code.encode("utf-8", "surrogateescape"))
        page = f"<html><head><title>t</title></head><h1>{problem}</h1><p>Add&nbsp;&lt; two.</p></html>"
        (root / "problem_descriptions" / f"{problem}.html").write_text(page)
    with open(root / "metadata" / "problem_list.csv", "w") as handle:
        handle.write("id,name,dataset,time_limit,memory_limit,rating,tags,complexity\n")
    return root


def programs(right: int, wrong: int) -> list[tuple[str, str, str | None]]:
    made: list[tuple[str, str, str | None]] = [("Accepted", "Python", f"print({i})\n") for i in range(right)]
    return made + [("Wrong Answer", "Python", f"print(-{i + 1})\n") for i in range(wrong)]


def test_groups(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "net", {"p00001": programs(5, 9), "p00002": programs(1, 9), "p00003": programs(4, 0)}
    )
    out = tmp_path / "groups.jsonl"
    assert main(["-i", str(root), "-o", str(out), "--prompts", "tiny"]) == 0
    rows = read(out)
    assert [row["extra_info"]["index"] for row in rows] == ["p00001-0", "p00001-1", "p00001-2", "p00002-0"]
    seen: set[str] = set()
    for row in rows:
        rates = [item["pass_rate"] for item in row["completions"]]
        assert len(rates) == 4 and {0.0, 1.0} == set(rates)
        assert row["prompt"] == TINY.messages(row["extra_info"]["index"][:6] + "\n\nAdd < two.")
        for item in row["completions"]:
            assert item["submission_id"] not in seen
            seen.add(item["submission_id"])
            assert item["text"].startswith("```python\nprint(") and item["text"].endswith("\n```")
            assert (item["pass_rate"] == 1.0) == (item["status"] == "Accepted") == ("-" not in item["text"])
            assert (item["cpu_time"], item["memory"]) == (20, -1)
    counts = json.loads(Path(f"{out}.manifest.json").read_text())["counts"]
    assert counts["groups"] == 4 and counts["programs"] == 28
    assert counts["problems_left_out"] == {"too few right or wrong programs": 1}
    assert data_main(["check", str(out)]) == 0


def test_what_is_left_out(tmp_path: Path) -> None:
    odd: list[tuple[str, str, str | None]] = [
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
    root = tree(tmp_path / "net", {"p00001": odd + programs(2, 2)})
    counts = CodenetCounts()
    settings = CodenetSettings(TINY, max_letters=100)
    rows = list(groups_of(root, "p00001", settings, counts))
    assert len(rows) == 1
    assert counts.programs == 12
    # How many of the odd ones were looked at depends on the draw; all of them if every program is used.
    assert counts.programs_left_out["status Waiting"] == 1
    list(
        groups_of(root, "p00001", CodenetSettings(TINY, size=99, max_letters=100), counts := CodenetCounts())
    )
    assert counts.programs_left_out == {
        "status Waiting": 1, "no file": 1, "empty": 1, "not UTF-8": 1, "holds a fence": 1, "too long": 1,
        "a copy": 1, "not Python 3": 1,
    }  # fmt: skip


def test_same_bytes_and_parquet(tmp_path: Path) -> None:
    root = tree(tmp_path / "net", {f"p0000{i}": programs(6, 6) for i in range(5)})
    for name in ("a.parquet", "b.parquet", "a.jsonl", "b.jsonl"):
        build_codenet(root, tmp_path / name, CodenetSettings(TINY))
    for kind in ("parquet", "jsonl"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert rows == read(tmp_path / "a.jsonl")
    build_codenet(root, tmp_path / "c.jsonl", CodenetSettings(TINY, seed=1))
    assert (tmp_path / "c.jsonl").read_bytes() != (tmp_path / "a.jsonl").read_bytes()


def test_the_offline_recipe_reads_the_groups(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from cobalt.training.offline_data import check_groups

    root = tree(tmp_path / "net", {"p00001": programs(6, 6)})
    build_codenet(root, tmp_path / "groups.parquet", CodenetSettings(TINY))
    offline = SimpleNamespace(objective="rloo", reward="correctness", clip=None, temperature=1.0, keep=1)
    groups = check_groups(
        tmp_path / "groups.parquet", SimpleNamespace(cobalt=SimpleNamespace(offline=offline))
    )
    assert len(groups) == 3
    assert all(abs(sum(group.weights)) < 1e-9 and set(group.rewards) == {0.0, 1.0} for group in groups)


def test_statements(tmp_path: Path) -> None:
    root = tree(tmp_path / "net", {"p00001": programs(1, 1)})
    assert statement_of(root, "p00001") == "p00001\n\nAdd < two."
    assert statement_of(root, "p99999") is None
    (root / "problem_descriptions" / "p00001.html").unlink()
    with pytest.raises(InputError, match="no problem has 2 Python programs"):
        build_codenet(root, tmp_path / "out", CodenetSettings(TINY, size=2))


def test_other_folders_and_broken_metadata(tmp_path: Path) -> None:
    out = str(tmp_path / "out.jsonl")
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
