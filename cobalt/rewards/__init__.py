"""Rewards and advantages as pure functions of a completion, its pass rates and its group.

The shaped reward of the paper and its format rules: `cobalt` (how it counts tokens: `cobalt.text`). What is
known of every turn of a rollout: `records`. Advantages within a group of stored completions: `groups`.
"""
