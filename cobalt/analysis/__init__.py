"""What the trajectories show: hidden-test verdicts, statistics over them, control experiments."""
