"""Run configurations: a YAML file goes in, a checked `Config` comes out.

`load` reads file and `--set` changes and names file, line and field of every mistake. `sections` has every
key and what it means, `config` the rules across keys, `recipes` what a training recipe says where the file
says nothing, `files` what the file names, `smoke` the same run made small.
"""
