"""What is known of evaluated rows: model, recipe, tasks, and whether it was a rehearsal."""

import json

import pytest

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import named_paths
from cobalt.evaluation.origin import Origin, origin, rehearsals

SETS = [{"name": "livecodebench", "source": "heldout"}, {"name": "own", "source": "mine.jsonl"}]
CONFIG = {
    "name": "qwen3-8b", "train": {"recipe": "../recipes/mine.yaml"}, "tasks": {"family": "tiny"},
    "evaluate": {"sets": SETS}, "perturb": {"source": "dev"},
}  # fmt: skip
RUN = {
    "identity": {"config": CONFIG},
    "about": {"model": "tiny-reference", "smoke": True, "changed": ["a=1"]},
}


@pytest.fixture
def put(tmp_path):
    """Writes a file with the manifests of what it was made from."""

    def put(name, *argv):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = path.with_name("rows.jsonl")
        for each, before in ((path, source), (source, tmp_path / "tasks" / "my tasks.jsonl")):
            each.touch()
            made = {
                "schema": 1, "settings": {"model": "model:12"} if each == source else {},
                "inputs": {"input_file": {"path": str(before)}}, "argv": ["cobalt run", *argv],
            }  # fmt: skip
            each.with_name(f"{each.name}.manifest.json").write_text(json.dumps(made))
        return path

    return put


@pytest.mark.parametrize(
    ("file", "recipe", "data", "of_set"),
    [
        ("evaluate/cobalt_eval.jsonl", "mine", "livecodebench (tiny tasks, heldout)", "livecodebench"),
        ("evaluate/reference_eval.jsonl", None, "livecodebench (tiny tasks, heldout)", "livecodebench"),
        ("evaluate/own/cobalt_eval.jsonl", "mine", "own (mine.jsonl)", "own"),
        ("perturb/cobalt_eval.jsonl", "mine", "perturbed (tiny tasks, dev)", "perturbed"),
        ("controls/control_blank_eval.jsonl", "mine", "livecodebench (tiny tasks, heldout)", "livecodebench"),
    ],
)
def test_files_in_the_folder_of_a_run(put, tmp_path, file, recipe, data, of_set):
    path = put(file)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert origin(path) == Origin("tiny-reference", recipe, data, of_set, "qwen3-8b", ("a=1",), True)


@pytest.mark.parametrize("run", [None, "[]", "{", '{"schema": 1}'])
@pytest.mark.parametrize("argv", [(), ("--smoke",)])
def test_files_of_their_own_are_known_by_their_manifests(put, tmp_path, run, argv):
    path = put("evaluate/a_eval.jsonl", *argv)
    if run is not None:
        (tmp_path / "run.json").write_text(run)
    assert origin(path) == Origin("model:12", data="my tasks.jsonl", smoke=bool(argv))
    assert [note.split(":")[0] for note in rehearsals([("a", path)])] == ["a is of a smoke run"] * len(argv)
    assert origin(tmp_path / "bare.jsonl") == Origin()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["x/a_eval.jsonl", "x/b_eval.jsonl"], ["a", "b"]),
        (["x/a_eval.jsonl", "y/a_eval.jsonl"], ["x/a", "y/a"]),
        (["r1/e/a_eval.jsonl", "r2/e/a_eval.jsonl", "r2/e/b.jsonl"], ["r1/a", "r2/a", "b"]),
        (["a=r1/e/a_eval.jsonl", "r2/e/a_eval.jsonl"], ["a", "e/a"]),
    ],
)
def test_names_tell_files_apart(given, names):
    assert [name for name, _ in named_paths(given)] == names
    with pytest.raises(InputError, match="given twice"):
        named_paths([given[0], given[0]])
