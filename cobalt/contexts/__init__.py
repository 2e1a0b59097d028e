"""Contexts: dialogues that end with a request for the next program; a contextual bandit answers one turn.

In: evaluated trajectories (`trajectories` reads and checks a task's). Out: contexts as JSONL (`build`), and
as the trainer's Parquet files (`parquet`, whose rows and types are in `verl_rows`). Which trajectories are
kept: `select`; where they are cut, and when not: `slice`.
"""
