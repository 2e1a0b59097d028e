"""Tasks: statements with public and hidden tests, as rows (`cobalt.schema.TaskRow`) of a JSONL file.

In: TACO-verified (`taco`, its filters and reference programs in `taco_rows`), LiveCodeBench
(`livecodebench`), CodeNet (`codenet`), ready rows and rows of your own (`own`), the generated family of the
demo (`tiny`, its `submissions`). Out: tasks, and with `perturb` tasks whose public tests no right program
passes. How the command lines convert rows: `cobalt.convert`.
"""
