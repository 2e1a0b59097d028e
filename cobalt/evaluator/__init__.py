"""Judging programs: a task's tests in, verdicts out.

`LocalEvaluator` runs programs on this machine (`local`), `connect` finds the evaluator to use (`client`).
What counts as a right answer: `checker`. How runs become verdicts: `judge`; what the model is told of them:
`feedback`; which are known already: `verdict_cache`. The service, and its clients with what they send:
`service`, `remote`.
"""

from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.client import connect
from cobalt.evaluator.local import LocalEvaluator

__all__ = ["Evaluator", "LocalEvaluator", "connect"]
