"""Sources of tasks: each module yields rows with statement, public and hidden tests."""
