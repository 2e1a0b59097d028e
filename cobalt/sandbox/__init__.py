"""Running untrusted Python programs: programs and inputs in, bytes and resource facts out. No verdicts.

Host: `pool` lends workers, `worker` drives one, `run_files` holds what a run reads and writes, `limits` what
programs are promised, `probe` tries what a machine really gives. Inside the worker processes: `guest`, which
imports nothing but the standard library (its docstring shows who starts whom).
"""
