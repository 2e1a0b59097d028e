"""Judging programs: a task's tests in, verdicts out.

`LocalEvaluator` runs them on this machine, `connect` finds or names the evaluator to use.
"""

from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.client import connect
from cobalt.evaluator.local import LocalEvaluator

__all__ = ["Evaluator", "LocalEvaluator", "connect"]
