"""LiveCodeBench: rows, dates, functional problems, and test lists that are not to be trusted."""

from __future__ import annotations

import base64
import collections
import json
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT
from cobalt.tasks.livecodebench import (
    DEFAULT_INPUT,
    DEFAULT_OUTPUT,
    HUB_NAME,
    OUTSIDE,
    LcbSettings,
    convert,
    cut,
    locate,
    main,
)
from cobalt.tasks.pickled import decode_tests

sys.path.append(str(Path(__file__).parent))
import contextlib

from data_rows import lcb, pack, read, write


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


# --- Decoding

MARKER = Path("/tmp/cobalt-hostile-pickle-was-run")


class Hostile:
    def __reduce__(self) -> Any:
        return MARKER.touch, ()


class Built:
    def __init__(self) -> None:
        self.x = 1


HOSTILE = {
    "reduce": pickle.dumps(Hostile()),
    "reduce, protocol 0": pickle.dumps(Hostile(), 0),
    "hidden in a list": pickle.dumps(["[]", Hostile()]),
    "os.system": b"cos\nsystem\n(S'true'\ntR.",
    "inst": b"(S'true'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'true'\no.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "builtins": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x01'\x85R.",
    "ordered dict": pickle.dumps(collections.OrderedDict(a=1)),
    "object": pickle.dumps(Built()),
    "newobj": b"\x80\x02cdatetime\ndate\n)\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"Ppid\n.",
    "binary persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "memo of a thousand million": b"\x80\x02X\x02\x00\x00\x00[]r\xff\xff\xff\x3b.",
    "negative memo": b"V[]\np-5\n.",
    "class alone": pickle.dumps(dict),
    "after the text": pickle.dumps("[]")[:-1] + b"0" + pickle.dumps(Hostile()),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(data: bytes) -> None:
    MARKER.unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"f:1: field 'x': .*(is not opened|a broken pickle)"):
        decode_tests(packed(data), "f:1: field 'x'")
    assert not MARKER.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data end too early|neither JSON"),
        ("no base64!", "neither JSON nor base64"),
        (base64.b64encode(b"no zlib").decode(), "neither JSON nor base64"),
        (packed(b"no pickle"), "a broken pickle|is not opened"),
        (packed(b""), "a broken pickle"),
        (packed(pickle.dumps("[]"))[:-8], "neither JSON|too early"),
        (packed(pickle.dumps(["[]"])), "is not opened"),
        (packed(pickle.dumps(b"[]")), "is not opened"),
        (packed(pickle.dumps("{")), "not valid JSON"),
        (packed(pickle.dumps('{"a": 1}')), "must hold a list"),
        ('{"a": 1}', "must hold a list"),
        ("[" * 100_000, "not valid JSON"),
        (packed(pickle.dumps("[" * 100_000)), "not valid JSON"),
        (packed(b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"x."), "a broken pickle"),
    ],
)
def test_other_data_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_tests(text, "f:1: field 'x'")


def test_a_bomb_is_not_unpacked() -> None:
    bomb = packed(b"\0" * (4 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(InputError, match=r"unpacks to more than 1 MiB \(--max_tests_mib"):
        decode_tests(bomb, "x", 1 << 20)
    exact = pickle.dumps(json.dumps(["a" * 1000]))
    assert decode_tests(packed(exact), "x", len(exact)) == ["a" * 1000]
    with pytest.raises(InputError, match="unpacks to more"):
        decode_tests(packed(exact), "x", len(exact) - 1)


@given(st.lists(st.text(), max_size=4), st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_what_was_packed_comes_back(values: list[str], protocol: int) -> None:
    text = json.dumps(values)
    assert decode_tests(packed(pickle.dumps(text, protocol)), "x") == values
    assert decode_tests(text, "x") == values


@given(st.binary(max_size=60))
def test_random_bytes_are_an_error_or_a_list(data: bytes) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(decode_tests(packed(data), "x"), list)


# --- Rows


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (" a\n\nExample 1:\n\nb\nExample 1:\n\nc", "a"),
        ("a\nSample Input 1\n\nb\nExample 1:\n\nc", "a\nSample Input 1\n\nb"),
        ("a\n\nSample Input 1\n\nb", "a"),
        ("a Example 1:\n\nb", "a Example 1:\n\nb"),
        ("a\nExample 1:\nb\n", "a\nExample 1:\nb"),
    ],
)
def test_cut(text: str, statement: str) -> None:
    assert cut(text) == statement


def test_a_row() -> None:
    row = convert(lcb(note="kept"), "x", LcbSettings())
    assert not isinstance(row, str)
    assert row["id"] == "q1" and row["is_functional"] is False and row["note"] == "kept"
    assert row["instruction"] == DEFAULT.wrap("Add the numbers.")
    tests, public, hidden = (json.loads(row[f"{part}test_cases"]) for part in ("", "public_", "hidden_"))
    assert tests == {"inputs": ["1 2\n"] * 5, "outputs": ["0", "1", "2", "3", "4"]}
    assert (public["outputs"], hidden["outputs"]) == (["0", "1"], ["2", "3", "4"])
    for name in ("question_title", "platform", "contest_id", "contest_date", "starter_code", "metadata"):
        assert row[name] == lcb()[name]
    assert not {"question_id", "question_content", "private_test_cases"} & row.keys()


def test_functional_problems() -> None:
    source = lcb(functional=True)
    stdin = convert(source, "x", LcbSettings())
    called = convert(source, "x", LcbSettings(functional="call"))
    assert not isinstance(stdin, str) and not isinstance(called, str)
    assert stdin["is_functional"] is called["is_functional"] is True
    assert json.loads(stdin["test_cases"])["inputs"][0] == '[1, 2]\n"a"'
    assert "Solution" not in stdin["instruction"]  # as published: the starter code is not shown
    tests = json.loads(called["test_cases"])
    assert tests["fn_name"] == "add"
    assert (tests["inputs"][0], tests["outputs"]) == ([[1, 2], "a"], [0, 1, 2, 3, 4])
    assert json.loads(called["hidden_test_cases"])["fn_name"] == "add"
    assert "class Solution:\n    def add(self, a, b):" in called["instruction"]


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [
        ("2025-01-18", "2025-01-18", True),
        ("2025-01-19", None, False),
        (None, "2025-01-17", False),
        (None, None, True),
    ],
)
def test_dates(start: str | None, end: str | None, inside: bool) -> None:
    import datetime

    days = [None if text is None else datetime.date.fromisoformat(text) for text in (start, end)]
    assert (convert(lcb(), "x", LcbSettings(*days)) != OUTSIDE) == inside


BAD = [
    ({"question_id": None}, "'question_id'"),
    ({"question_content": 1}, "field 'question_content' must be a string"),
    ({"contest_date": "yesterday"}, "field 'contest_date' must be an ISO date"),
    ({"public_test_cases": "[1]"}, r"field 'public_test_cases'\[0\] must be an object"),
    ({"public_test_cases": '[{"input": "1"}]'}, r"field 'public_test_cases'\[0\]: 'output' must be a string"),
    ({"private_test_cases": "x"}, "field 'private_test_cases': neither JSON"),
    ({"private_test_cases": packed(HOSTILE["os.system"])}, r"field 'private_test_cases': .* \(GLOBAL\)"),
    ({"private_test_cases": "[]", "public_test_cases": "[]"}, "no tests"),
    ({"metadata": "{"}, "field 'metadata': not valid JSON"),
    (
        {"public_test_cases": '[{"input": "", "output": "", "testtype": "functional"}]'},
        "'testtype' is both functional and stdin",
    ),
    ({"question_id": "first"}, "'question_id' 'first' occurs twice"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_rows(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows = [lcb("first"), lcb("second") | change, lcb("third", functional=True)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        main(["-i", str(source), "-o", str(out)])
    assert not out.exists()
    assert main(["-i", str(source), "-o", str(out), "--on_bad_row", "skip"]) == 0
    assert [row["id"] for row in read(out)] == ["first", "third"]
    assert len(read(tmp_path / "out.jsonl.rejects.jsonl")) == 1


def test_calls_need_json_and_a_name(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for change, message in (({"metadata": "{}"}, "'func_name'"), ({"public_test_cases": None}, "must be")):
        source = write(tmp_path / "in.jsonl", [lcb(functional=True) | change])
        with pytest.raises(InputError, match=message):
            main(["-i", str(source), "-o", out, "--functional", "call"])
    tests = [{"input": "a b", "output": "1", "testtype": "functional"}]
    source = write(tmp_path / "in.jsonl", [lcb(functional=True, private_test_cases=pack(tests))])
    with pytest.raises(InputError, match="arguments and value of add must be JSON"):
        main(["-i", str(source), "-o", out, "--functional", "call"])


def test_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path / DEFAULT_INPUT, [lcb("a"), lcb("b", functional=True), lcb("c", contest_date="2024-12-31")]
    )
    assert main([]) == 0
    first = Path(DEFAULT_OUTPUT).read_bytes()
    assert "3 problems, 1 of them functional" in capsys.readouterr().out
    assert main(["--start", "2025-01-01"]) == 0
    assert "1 problems outside the dates" in capsys.readouterr().out
    assert main([]) == 0 and Path(DEFAULT_OUTPUT).read_bytes() == first
    with pytest.raises(InputError, match="--start 2025-02-01 is after --end 2025-01-01"):
        main(["--start", "2025-02-01", "--end", "2025-01-01"])
    with pytest.raises(SystemExit, match="2"):
        main(["--start", "January"])
    assert "--start" in capsys.readouterr().err
    assert locate(HUB_NAME) == f"{HUB_NAME}:test6.jsonl" and locate("x.jsonl") == "x.jsonl"
