"""What the trainings of this folder share: one cluster, a model, data."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
