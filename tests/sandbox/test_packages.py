"""Installed packages that programs may import: numpy, and nothing beside it."""

import pytest

from cobalt.sandbox.limits import Limits, package_paths
from cobalt.sandbox.worker import Worker

pytestmark = pytest.mark.skipif(not package_paths(["numpy"]), reason="numpy is not installed")


def test_numpy_works_and_is_imported_once_for_all_tests(box):
    code = "import numpy as np\nprint(round(np.linalg.det(np.array([[2, 0], [0, int(input())]]))))"
    runs = box.runs(code, ["3", "4", "5"])
    assert [facts.stdout for facts in runs] == [b"6\n", b"8\n", b"10\n"]
    assert all(facts.cpu_s < 0.5 for facts in runs)


@pytest.mark.parametrize("name", ["torch", "ray", "pytest", "cobalt", "pip"])
def test_other_packages_are_not_there(box, name):
    code = f"try:\n    import {name}\nexcept ModuleNotFoundError:\n    print('none')"
    assert box.output(code) == "none"


def test_random_numbers_of_numpy_differ_between_tests(box):
    first, second = box.runs("import numpy\nprint(numpy.random.random())", ["", ""])
    assert first.returncode == second.returncode == 0
    assert first.stdout != second.stdout


def test_numpy_cannot_be_changed(box):
    code = "import numpy\nopen(numpy.__file__, 'a')"
    assert box.run(code).returncode == 1
    assert box.output("import numpy\nprint(numpy.add(1, 1))") == "2"


def test_a_name_that_merely_looks_like_it_imports_nothing(box):
    code = "text = '''\nimport numpy\n'''\nimport sys\nprint(len(text))"
    assert box.output(code) == "14"


def test_memory_used_through_numpy_is_limited(box):
    facts = box.run("import numpy\nnumpy.ones(1 << 28)", limits=Limits(memory_bytes=512 << 20))
    assert facts.returncode != 0 or facts.limit == "memory"
    assert b"Unable to allocate" in facts.stderr or facts.limit == "memory"


def test_a_program_of_the_same_name_as_a_package_is_no_package(box):
    assert box.output("def numpy(x): return x\nprint(numpy(3))") == "3"


def test_a_project_in_the_temporary_folder_is_seen_too(tmp_path, usable):
    """The sandbox builds its root on top of /tmp: what lies there must be found all the same."""
    level = usable("namespaces")
    package = tmp_path / "shown"
    package.mkdir()
    (package / "__init__.py").write_text("value = 7\n")
    assert str(tmp_path).startswith("/tmp")
    worker = Worker(level, packages=[str(package)])
    try:
        with worker.program(b"import shown\nprint(shown.value)", Limits()) as program:
            assert program.run(b"").stdout == b"7\n"
    finally:
        worker.close()
