"""Run configurations: a YAML file goes in, a checked `Config` comes out.

`load` reads file and `--set` changes, names file, line and field of every mistake, and finds what the file
names. `sections` has every key and what it means, `config` the rules across keys, `recipes` what a training
recipe says where the file says nothing, `smoke` the same run made small.
"""
