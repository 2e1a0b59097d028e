"""From stored trajectories to bandit contexts, and from contexts to the trainer's Parquet files."""
