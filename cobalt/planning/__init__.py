"""What a run will take: tokens, evaluator hours, GPU hours, disk, money and time, with the arithmetic.

`workload` says what is to be done in plain numbers, `assumptions` what is believed about data, machines and
prices, `estimate` works out the rest line by line.
"""
