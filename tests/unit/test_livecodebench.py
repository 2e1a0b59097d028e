"""LiveCodeBench: rows, dates, functional problems, and test lists that are not to be trusted."""

import base64
import contextlib
import json
import pickle
import zlib
from pathlib import Path

import pytest
from data_rows import lcb, pack, read, write
from hypothesis import given
from hypothesis import strategies as st

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT
from cobalt.tasks import livecodebench
from cobalt.tasks.livecodebench import (
    DEFAULT_INPUT,
    DEFAULT_OUTPUT,
    HUB_NAME,
    LcbSettings,
    convert,
    cut,
    decode_tests,
    locate,
    main,
)

MARKER = Path("/tmp/cobalt-hostile-pickle-was-run")


def packed(data):
    return base64.b64encode(zlib.compress(data)).decode()


class Hostile:
    def __reduce__(self):
        return MARKER.touch, ()


HOSTILE = {
    "reduce": pickle.dumps(Hostile()),
    "hidden in a list": pickle.dumps(["[]", Hostile()]),
    "os.system": b"cos\nsystem\n(S'true'\ntR.",
    "inst": b"(S'true'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'true'\no.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "extension": b"\x80\x02\x82\x01.",
    "binary persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "after the text": pickle.dumps("[]")[:-1] + b"0" + pickle.dumps(Hostile()),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(data):
    MARKER.unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"f:1: field 'x': .*(is not opened|a broken pickle)"):
        decode_tests(packed(data), "f:1: field 'x'")
    assert not MARKER.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data end too early|neither JSON"),
        (base64.b64encode(b"no zlib").decode(), "neither JSON nor base64"),
        (packed(b"no pickle"), "a broken pickle|is not opened"),
        (packed(pickle.dumps("[]"))[:-8], "neither JSON|too early"),
        (packed(pickle.dumps(b"[]")), "is not opened"),
        (packed(pickle.dumps('{"a": 1}')), "must hold a list"),
        ("[" * 100_000, "not valid JSON"),
        (packed(b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"x."), "a broken pickle"),
    ],
)
def test_other_data_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        decode_tests(text, "f:1: field 'x'")


def test_a_bomb_is_not_unpacked(monkeypatch):
    exact = pickle.dumps(json.dumps(["a" * 1000]))
    monkeypatch.setattr(livecodebench, "MAX_BYTES", len(exact))
    assert decode_tests(packed(exact), "x") == ["a" * 1000]
    monkeypatch.setattr(livecodebench, "MAX_BYTES", len(exact) - 1)
    for bomb in (packed(exact), packed(b"\0" * (4 << 20))):
        with pytest.raises(InputError, match="unpacks to more"):
            decode_tests(bomb, "x")


@given(st.lists(st.text(), max_size=4), st.integers(0, pickle.HIGHEST_PROTOCOL), st.binary(max_size=60))
def test_what_was_packed_comes_back_and_random_bytes_are_an_error(values, protocol, data):
    text = json.dumps(values)
    assert decode_tests(packed(pickle.dumps(text, protocol)), "x") == values == decode_tests(text, "x")
    with contextlib.suppress(InputError):
        assert isinstance(decode_tests(packed(data), "x"), list)


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
def test_cut(text, statement):
    assert cut(text) == statement


def test_rows_and_functional_problems():
    row = convert(lcb(note="kept"), "x", LcbSettings())
    assert row["id"] == "q1" and row["is_functional"] is False and row["note"] == "kept"
    assert row["instruction"] == DEFAULT.wrap("Add the numbers.")
    tests, public, hidden = (json.loads(row[f"{part}test_cases"]) for part in ("", "public_", "hidden_"))
    assert tests == {"inputs": ["1 2\n"] * 5, "outputs": ["0", "1", "2", "3", "4"]}
    assert (public["outputs"], hidden["outputs"]) == (["0", "1"], ["2", "3", "4"])
    for name in ("question_title", "platform", "contest_id", "contest_date", "starter_code", "metadata"):
        assert row[name] == lcb()[name]
    assert not {"question_id", "question_content", "private_test_cases"} & row.keys()

    source = lcb(functional=True)
    stdin, called = (convert(source, "x", LcbSettings(functional=how)) for how in ("stdin", "call"))
    assert stdin["is_functional"] is called["is_functional"] is True
    assert json.loads(stdin["test_cases"])["inputs"][0] == '[1, 2]\n"a"'
    assert "Solution" not in stdin["instruction"]  # as published: the starter code is not shown
    tests = json.loads(called["test_cases"])
    assert tests["fn_name"] == "add" == json.loads(called["hidden_test_cases"])["fn_name"]
    assert (tests["inputs"][0], tests["outputs"]) == ([[1, 2], "a"], [0, 1, 2, 3, 4])
    assert "class Solution:\n    def add(self, a, b):" in called["instruction"]


FUNCTIONAL = '[{"input": "", "output": "", "testtype": "functional"}]'
NO_JSON = pack([{"input": "a b", "output": "1", "testtype": "functional"}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question_id": None}, "'question_id'"),
        ({"contest_date": "yesterday"}, "field 'contest_date' must be an ISO date"),
        ({"public_test_cases": "[1]"}, r"field 'public_test_cases'\[0\] must be an object"),
        ({"public_test_cases": '[{"input": "1"}]'}, r"'public_test_cases'\[0\]: 'output' must be a string"),
        ({"public_test_cases": FUNCTIONAL[:-14] + '"x"}]'}, "must be stdin or functional"),
        ({"private_test_cases": "x"}, "field 'private_test_cases': neither JSON"),
        ({"private_test_cases": packed(HOSTILE["os.system"])}, r"field 'private_test_cases': .* \(GLOBAL\)"),
        ({"private_test_cases": "[]", "public_test_cases": "[]"}, "no tests"),
        ({"metadata": "{"}, "field 'metadata': not valid JSON"),
        ({"public_test_cases": FUNCTIONAL}, "'testtype' is both functional and stdin"),
        ({"question_id": "first"}, "'question_id' 'first' occurs twice"),
        (lcb("second", functional=True, metadata="{}"), "'func_name'"),
        (lcb("second", functional=True, private_test_cases=NO_JSON), "arguments and value of add must be"),
    ],
)
def test_bad_rows(change, message, tmp_path):
    rows = [lcb("first"), lcb("second") | change, lcb("third", functional=True)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    flags = ["-i", str(source), "-o", str(out), "--functional", "call"]
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        main(flags)
    assert not out.exists()
    assert main([*flags, "--on_bad_row", "skip"]) == 0
    assert [row["id"] for row in read(out)] == ["first", "third"]
    assert len(read(tmp_path / "out.jsonl.rejects.jsonl")) == 1


def test_door(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    outside = lcb("c", contest_date="2024-12-31")
    write(tmp_path / DEFAULT_INPUT, [lcb("a"), lcb("b", functional=True), outside])
    assert main([]) == 0
    first = Path(DEFAULT_OUTPUT).read_bytes()
    assert "3 problems, 1 of them functional" in capsys.readouterr().out
    for flags, outside in (
        (["--start", "2025-01-18"], 1), (["--start", "2025-01-19"], 3), (["--end", "2025-01-17"], 2),
    ):  # fmt: skip
        assert main(flags) == 0
        assert f"{outside} problems outside the dates" in capsys.readouterr().out
    assert main([]) == 0 and Path(DEFAULT_OUTPUT).read_bytes() == first
    with pytest.raises(InputError, match="--start 2025-02-01 is after --end 2025-01-01"):
        main(["--start", "2025-02-01", "--end", "2025-01-01"])
    with pytest.raises(SystemExit, match="2"):
        main(["--start", "January"])
    assert locate(HUB_NAME) == f"{HUB_NAME}:test6.jsonl" and locate("x.jsonl") == "x.jsonl"
