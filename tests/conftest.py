"""Settings for all tests: one thread per process, no network, and a hypothesis profile without deadlines."""

import os
import signal
import sys
import tempfile

import pytest
from chromium import CHROMIUM, FLAGS
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# Under `nohup` or a shell's `&` interrupts are ignored, and so by every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing on a busy machine is no property of the code.
settings.register_profile("cobalt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cobalt")


@pytest.fixture(autouse=True)
def modules_of_a_test_end_with_it():
    """A file that is loaded leaves its folder in the path: `mine.py` of one test is not another's."""
    path, known = sys.path.copy(), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(tempfile.gettempdir()):
            del sys.modules[name]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()
