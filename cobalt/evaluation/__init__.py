"""Evaluation: trajectories with hidden tests go in, verdicts and figures with honest intervals come out.

Verdicts on every program: `evaluate`. What they say: `evaluated_rows` (reading them), `summary` (Pass@1 and
Pass@k), `compare` (paired differences of runs), `format` (figures in words). Wrong tests: `turn_errors`
(turns that accepted one), `judge` (a model names their kind; `verdicts` are its categories, and how good it
is on clear cases). Is it the feedback that helps: `controls`.
"""
