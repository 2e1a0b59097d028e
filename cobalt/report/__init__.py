"""What a run found: statistics, tables for the terminal, one static page."""
