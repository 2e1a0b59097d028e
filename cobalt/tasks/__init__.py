"""Tasks: statements with public and hidden tests, as rows (`cobalt.schema.TaskRow`) of a JSONL file.

In: TACO-verified (`taco`, its filters in `taco_filters`, `reference` programs), LiveCodeBench
(`livecodebench`, what it packs in `pickled`), CodeNet (`codenet`, its files in `codenet_tree`), ready rows
(`released`), rows of your own (`own`), the generated family of the demo (`tiny`, its `submissions`). Out:
tasks, and with `perturb` tasks whose public tests no right program passes. What the sources share: `convert`;
equal statements and overlap with evaluation problems: `statements`.
"""
