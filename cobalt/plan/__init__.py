"""What a run will take: a configuration goes in; tokens, hours, disk and money come out, with the arithmetic.

`from_config` says in plain numbers what is to be done (`workload`), `assumptions.yaml` what is believed about
data, machines and prices, `models` what fits where; `estimate` puts the stages of `sampling` and `training`
together and adds files and money; `arithmetic` prints what it computes.
"""
