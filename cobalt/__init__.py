"""Contextual-bandit reinforcement learning for multi-turn code generation (arXiv 2602.03806).

Tasks become rollouts, trajectories, contexts, a trained policy, an evaluation and a report: a package each.
Any file of rows is opened by `rows` and written by `output`; `schema` says what rows hold, `kinds` which
files there are, `convert` makes rows of one file out of those of another, `pipeline` runs programs or models
over rows and continues after a kill, `cli` is what command lines share.
"""

__version__ = "0.1.0"
