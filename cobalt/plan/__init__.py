"""What a run will take: a configuration goes in; tokens, hours, disk and money come out, with the arithmetic.

`from_config` says in plain numbers what is to be done (`workload`), `assumptions` (and its YAML) what is
believed about data, models, machines and prices; `estimate` puts the stages of `sampling` and `training`
together and adds files and money; `arithmetic` prints what it computes.
"""
