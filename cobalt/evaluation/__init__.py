"""Evaluation: trajectories with hidden tests go in, verdicts and figures with honest intervals come out.

Verdicts on every program: `evaluate`. What they say: `evaluated_rows` (reading them), `summary` (Pass@1 and
Pass@k), `compare` (paired differences of runs), `format` (figures in words). Wrong tests: `turn_errors`
(turns that accepted one, by the rule of `swapped_pairs`), `judge` (a model names their kind; `verdicts` are
its categories, `calibration` says how good it is). Is it the feedback that helps: `controls`. Do tasks give
their tests away: `leakage`.
"""
