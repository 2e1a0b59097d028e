"""`cobalt doctor` on this machine: what it says of a level is what programs meet."""

import json

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
