"""What a run will take: a configuration goes in; tokens, hours, disk and money come out, with the arithmetic.

`from_config` says in plain numbers what is to be done (`workload`), `assumptions.yaml` what is believed about
data, machines and prices, `estimate` puts the stages of `sampling`, `training` and `files` together,
`scaling` compares amounts of data and devices, `arithmetic` prints what it computes.
"""
