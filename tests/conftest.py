"""Settings for all tests: one thread per process, no network, and a hypothesis profile without deadlines."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# Timing on a busy machine is no property of the code.
settings.register_profile("cobalt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cobalt")
