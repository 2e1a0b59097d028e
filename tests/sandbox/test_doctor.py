"""`cobalt doctor` on this machine: what it says of a level is what programs meet."""

import json
import re

import pytest

from cobalt import doctor
from cobalt.errors import InfraError


def test_the_doctor_tries_every_limit_of_a_level(box, capsys):
    level = box.level
    assert doctor.main(["--level", level, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    found = facts["isolation"][level]
    assert found["works"] and len(found["limits"]) > 10 and set(found["limits"].values()) == {"held"}
    assert facts["system"]["cpus"] >= 1 and facts["packages"]["numpy"][0].isdigit()
    assert doctor.main(["--level", level]) == 0
    shown = capsys.readouterr().out
    assert f"isolation {level}: works" in shown
    assert f"programs are run at isolation level: {level}" in shown
    assert re.search(r"memory +[\d.]+ GiB\n  disk +[\d.]+ GiB free", shown)


@pytest.mark.parametrize(
    ("change", "room", "demo", "gpu"),
    [
        ({}, (16, 50), "the demo will run", "GPU training will run (--gpu tries it)"),
        ({"gpus": []}, (16, 50), "the demo will run", "GPU training will not, because there is no GPU"),
        ({"packages": {"vllm": "0.9+cpu"}}, (16, 50), "the demo will run", "because vllm is the CPU build"),
        (
            {"packages": {"verl": "not installed"}},
            (16, 50),
            "not, because verl not installed",
            "because verl",
        ),
        (
            {"isolation": {"landlock": False}},
            (16, 50),
            "because programs cannot be run safely",
            "not, because",
        ),
        ({}, (3, 50), "it needs 8 GB of memory, and there are 3.0 GiB", "GPU training will run"),
        ({}, (16, 0.5), "it needs 1 GB of disk", "GPU training will run"),
    ],
)
def test_the_verdict_says_what_will_run_and_why_not(change, room, demo, gpu, monkeypatch, capsys):
    packages = {**dict.fromkeys(doctor._PACKAGES.split(), "1"), **change.get("packages", {})}
    works = {name: {"works": yes, "why": "", "limits": {}}
             for name, yes in change.get("isolation", {"landlock": True}).items()}  # fmt: skip
    facts = {"system": {}, "packages": packages, "gpus": change.get("gpus", ["H"]), "ray": "",
             "isolation": works}  # fmt: skip
    monkeypatch.setattr(doctor, "examine", lambda levels: dict(facts))
    monkeypatch.setattr(doctor, "_room", lambda: room)
    assert doctor.main([]) == (0 if works["landlock"]["works"] else 1)
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("verdict: the demo will") and demo in said and gpu in said
    doctor.main(["--json"])
    assert set(json.loads(capsys.readouterr().out)["verdict"]) == {"the demo", "GPU training"}


def test_a_machine_without_a_safe_level_is_told_so(monkeypatch, capsys):
    def refuse(level):
        raise InfraError(f"{level}: the kernel refuses")

    monkeypatch.setattr(doctor, "try_limits", refuse)
    assert doctor.main([]) == 1
    shown = capsys.readouterr().out
    assert "isolation namespaces: NOT AVAILABLE" in shown and "the kernel refuses" in shown
    assert "programs cannot be run safely here" in shown


def test_a_limit_that_does_not_hold_counts_as_broken(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "try_limits", lambda level: {"one": "held", "two": "open"})
    assert doctor.main(["--level", "landlock"]) == 1
    assert "1 of 2 limits do not hold" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        doctor.main(["--level", "none"])
