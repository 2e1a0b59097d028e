"""Commands for people and scripts, each run as `python -m cobalt.commands.NAME`."""
