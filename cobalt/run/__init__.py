"""Runs: a configuration goes in; trajectories, a model, evaluations and a report come out, in one folder.

`cli` is `cobalt run`. `runner` does stages in order and tells of them, `stage_cache` knows which need not run
again, `folder` that one run is in a folder. Stages: `data_stages` (tasks to training files; `task_files`,
`given`), `trainings`, `eval_stages`, `report_stage`. `job` is what they share: evaluator, engines (`serving`,
`first_turns`), dialogues and verdicts.
"""
