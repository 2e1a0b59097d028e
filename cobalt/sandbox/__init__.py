"""Running untrusted Python programs: warm workers, kernel isolation, bytes out. No verdicts are made here.

`cobalt.sandbox.pool` is the host side, `cobalt.sandbox.guest` what runs inside the worker processes (it
imports nothing but the standard library), `cobalt.sandbox.limits` the limits and isolation levels.
"""
