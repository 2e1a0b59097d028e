"""Sampling programs. In: task rows, an engine, an evaluator; out: rows with responses, or trajectories.

single_turn.py, multi_turn.py: the two runs and their command lines. runner.py: what happens to one
completion (bounds, budget, retries). trajectory.py: turns, their verdicts and feedback, their columns in a
row. settings.py: what determines the rows. inputs.py: rows and tests, checked before anything is sampled.
journal.py: finished turns that a kill must not cost. progress.py: what a run shows. cli.py: flags, estimate,
and the way from flags to a finished run.
"""
