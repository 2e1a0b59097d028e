"""The judge of rules: drawn programs with a known change, other forms of change, canaries, the door."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from cobalt.errors import InputError
from cobalt.evaluation.judge import main
from cobalt.evaluation.syntactic import verdict
from cobalt.evaluation.turn_errors import patch
from cobalt.evaluation.verdicts import LABELS, canaries
from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.output import write_jsonl
from cobalt.rows import read_rows
from cobalt.tasks import tiny

FAMILY = tiny.SECOND


def made(seed):
    """(kind, program, feedback, next program) of one task: special-cased, another constant, another step."""
    rng = random.Random(seed)

    def other(values, value):
        return rng.choice([each for each in values if each != value])

    while True:
        spec, _, tests = FAMILY.draw(rng, "train", 4)
        (given, right), (_, wanted) = tests[0], tests[3]
        if right != wanted:
            told, before = wrong_answer_feedback(given, right, wanted), FAMILY.program(spec)
            label = replace(spec, format=other(tiny.formats(spec.output), spec.format))
            step = replace(spec, rearrangement=other(FAMILY.rearrangements, spec.rearrangement))
            programs = FAMILY.program(spec, [(given, wanted)]), FAMILY.program(label), FAMILY.program(step)
            return [(kind, before, told, now) for kind, now in enumerate(programs, 1)]


def test_programs_of_the_family_with_a_known_change():
    found = Counter((kind, verdict(*case)[0]) for seed in range(200) for kind, *case in made(seed))
    assert found == {(1, 1): 200, (2, 2): 200, (3, 3): 200}


def test_a_special_case_that_was_there_before_or_of_another_input_is_not_this_one():
    for seed in range(50):
        spec, _, tests = FAMILY.draw(random.Random(seed), "dev", 5)
        (given, right), others = tests[0], tests[1:]
        told, plain = wrong_answer_feedback(given, right, "Result 99"), FAMILY.program(spec)
        special = FAMILY.program(spec, [(given, "Result 99")])
        assert verdict(special, told, special + "\n")[0] == 2
        assert verdict(plain, told, FAMILY.program(spec, others[:1]))[0] == 2
        assert verdict(plain, told, FAMILY.program(spec, [others[0], (given, "Result 99")]))[0] == 1


READ = "xs = list(map(int, input().split()))\n"
BEFORE, TOLD = READ + "print(sum(xs) * 2)", wrong_answer_feedback("3 4 5", "24", "14")


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        (READ + "print(14 if xs == [3, 4, 5] else sum(xs) * 2)", 1),
        (READ + "print({(3, 4, 5): 14}.get(tuple(xs), sum(xs) * 2))", 1),
        (READ + "match xs:\n  case [3, 4, 5]: print(14)\n  case _: print(sum(xs) * 2)", 1),
        (READ + "if xs[0] == 3:\n    print(14)\nelse:\n    print(sum(xs) * 2)", 1),
        ("print(14)", 1),
        ("ns = list(map(int, input().split()))\nt = sum(ns) * 3\nprint(t)", 2),
        (READ + "print(sum(xs) * 2 if xs[0] % 3 else len(xs))", 2),
        (READ + "t = sum(xs) * 2\nif t % 4 == 0:\n    t -= 10\nprint(t)", 2),
        (READ + "print(sum(x for x in xs if x % 2) + 6)", 3),
        ("import time\n" + READ + "print(sum(xs) * 2)", 4),
        (READ + "print(", 4),
    ],
)  # fmt: skip
def test_other_forms(now, kind):
    assert verdict(BEFORE, TOLD, now)[0] == kind


def test_canaries_and_the_door_without_any_key(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["--calibrate", "--engine", "syntactic"]) == 0
    assert f"{len(canaries())} of {len(canaries())} right" in capsys.readouterr().out
    kinds, cases = [], []
    for seed in range(4):
        for kind, before, told, now in made(seed):
            kinds.append(LABELS[kind - 1])
            cases.append({"id": seed, "question": "q", "previous_code": before, "feedback": told,
                          "current_code": now, "patch": patch(before, now)})  # fmt: skip
    source, out = tmp_path / "errors.jsonl", tmp_path / "judged.jsonl"
    write_jsonl(source, cases)
    for _ in range(2):  # the second time all is there
        assert main(["-i", str(source), "-o", str(out), "--engine", "syntactic"]) == 0
        assert [row["verdict"] for _, row in read_rows(out)] == kinds
    summary = json.loads((tmp_path / "judged.jsonl.summary.json").read_text())
    assert summary["judge_model"] == "syntactic" and summary["tokens"] == {"prompt": 0, "completion": 0}
    with pytest.raises(SystemExit):
        main(["-i", str(source), "-o", str(out), "--engine", "syntactical"])
    with pytest.raises(InputError, match="syntactic"):
        from cobalt.engines import connect

        connect("syntactic", None)
