"""`python -m cobalt` is `cobalt`."""

from cobalt.commands.cli import entry

if __name__ == "__main__":
    entry()
