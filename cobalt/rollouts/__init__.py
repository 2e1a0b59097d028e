"""Sampling programs. In: task rows, an engine, an evaluator; out: rows with responses, or trajectories.

single_turn.py, multi_turn.py: the two runs and their command lines. runner.py: what happens to one
completion (bounds, budget, retries). trajectory.py: turns, and their columns in a row. verdicts.py: which
tests, and the evaluator's word. feedback.py: what the model is told. settings.py: what determines the rows.
journal.py: finished turns that a kill must not cost. source.py: rows, checked before anything is sampled.
progress.py: what a run shows. cli.py: flags, estimate, and the way from flags to a finished run.
"""
