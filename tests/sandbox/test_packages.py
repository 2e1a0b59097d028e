"""Installed packages that programs may import: numpy, and nothing beside it."""

import pytest

from cobalt.sandbox.limits import Limits, package_paths
from cobalt.sandbox.worker import Worker

pytestmark = pytest.mark.skipif(not package_paths(["numpy"]), reason="numpy is not installed")


def test_numpy_works_and_is_imported_once_for_all_tests(box):
    code = """
import numpy as np
a = np.arange(12.0).reshape(3, 4)
assert (a @ a.T).shape == (3, 3) and np.linalg.matrix_rank(a) == 2
np.random.default_rng(1).normal(size=100).sort(); np.fft.fft(a); np.linalg.svd(a); np.loadtxt(['1 2', '3 4'])
print(round(np.linalg.det(np.array([[2, 0], [0, int(input())]]))), np.random.random())
"""
    runs = box.runs(code, ["3", "4", "5"])
    assert [facts.stdout.split()[0] for facts in runs] == [b"6", b"8", b"10"], runs[0].stderr
    assert all(facts.cpu_s < 0.5 for facts in runs)
    assert len({facts.stdout.split()[1] for facts in runs}) == 3  # random numbers are each test's own


@pytest.mark.parametrize("name", ["torch", "pytest", "cobalt", "pip"])
def test_other_packages_are_not_there(box, name):
    code = f"try:\n    import {name}\nexcept ModuleNotFoundError:\n    print('none')"
    assert box.output(code) == "none"


def test_numpy_cannot_be_changed(box):
    assert box.run("import numpy\nopen(numpy.__file__, 'a')").returncode == 1


def test_a_name_that_merely_looks_like_it_imports_nothing(box):
    assert (
        box.output("text = '''\nimport numpy\n'''\ndef numpy(x): return x\nprint(numpy(len(text)))") == "14"
    )


def test_memory_used_through_numpy_is_limited(box):
    facts = box.run("import numpy\nnumpy.ones(1 << 28)", limits=Limits(memory_bytes=512 << 20))
    assert b"Unable to allocate" in facts.stderr or facts.limit == "memory"


def test_a_project_in_the_temporary_folder_is_seen_too(tmp_path, usable):
    """The sandbox builds its root on top of /tmp: what lies there must be found all the same."""
    package = tmp_path / "shown"
    package.mkdir()
    (package / "__init__.py").write_text("value = 7\n")
    assert str(tmp_path).startswith("/tmp")
    worker = Worker(usable("namespaces"), packages=[str(package)])
    try:
        with worker.program(b"import shown\nprint(shown.value)", Limits()) as program:
            assert program.run(b"").stdout == b"7\n"
    finally:
        worker.close()
