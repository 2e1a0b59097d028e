"""Rewards computed from a completion and the verdicts of its program."""
