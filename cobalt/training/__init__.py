"""Training by a recipe, on an unmodified verl: rows in, checkpoints, metrics and an exported model out.

What a training is composed of: config, own_recipe; the command line: cli. How it runs: launch (this process),
worker (its own, with prepare), monitor, result. What is learnt: scoring (a reward from a verdict), dialogue
(turns and masks), trainer (masked samples leave), advantages, losses. Offline recipes: offline_data,
offline, sharded. The plan and whether it fits: fit, memory, attention; the machine: gpu_doctor. Clusters:
forwarded, pools, leftovers. verl_compat holds every private name of verl; cpu/ is verl without GPUs.
"""
