"""Training: the contextual bandit and its baselines, on an unmodified verl."""
