"""Runs: the ordered stages of a configuration file, each skipped when nothing it depends on has changed."""
