"""RLTF-SD (arXiv 2602.02482): the first answer learns from the answer that feedback led to.

With y0 an answer to the problem x and y1 its revision after feedback:

    gradient = mean over i of A_i * grad log p(y1_i | x)        A_i = R(y1_i) - mean over j of R(y0_j)

y1 is scored after the bare problem, without the first answer and its feedback, and without importance
weights; the baseline is of first answers, so that it does not vanish where every revision is right. Verified
in a detailed reading by others, with the algorithm. Two things differ: the dialogues are stored ones of the
reference where the paper samples fresh ones (no sampler here scores an answer after another prompt than its
own), and the ordinary RL of both turns, which the paper adds, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.contexts.trajectories import Trajectories


def revisions(task: Trajectories) -> list[dict[str, Any]]:
    """The second programs of a task's dialogues as completions of its statement, each with the mean pass rate
    of all first programs (``baseline``, in [0, 1]). Dialogues without verdicts are left out.
    """
    known = [(sample, rates) for sample, rates in enumerate(task.rates) if rates]
    first = [rates[0] for _, rates in known]
    return [
        {
            "text": task.conversations[sample][4]["content"],
            "pass_rate": rates[1],
            "baseline": sum(first) / len(first),
        }
        for sample, rates in known
        if len(rates) > 1
    ]


def weights(completions: Sequence[Mapping[str, Any]]) -> list[float]:
    """A of every revision, in [-1, 1]. Raises ValueError for completions without ``baseline``."""
    if any(item.get("baseline") is None for item in completions):
        raise ValueError("'completions' lack 'baseline': make the file with cobalt stored_groups --revisions")
    return [item["pass_rate"] - item["baseline"] for item in completions]
