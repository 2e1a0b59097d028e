"""Runs: a configuration goes in; trajectories, a model, evaluations and a report come out, in one folder.

`cli` is `cobalt run`. `runner` does stages in order, `stage_cache` knows which need not run again. Stages:
`data_stages` (tasks to training files; `task_files`, `given`, `perturbed_contexts`), `trainings`,
`eval_stages`, `reward_hacking`, `report_stage`. `job` is what they share: evaluator, engines (`serving`,
`first_turns`), settings. `select_stages`: `--from`, `--until`, `--only`; `view`: what is shown meanwhile.
"""
