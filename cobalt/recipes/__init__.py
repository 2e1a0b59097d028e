"""Methods, one file each: the functions that the recipe of the same name in ``verl/config/recipe`` names."""

from cobalt.rewards.records import Rollout, Turn


def judged(rollout: Rollout) -> tuple[Turn, ...]:
    """The turns of a rollout, each with its verdict. Raises ValueError where one has none."""
    if not rollout.turns or any(turn.reward is None for turn in rollout.turns):
        raise ValueError("a turn has no verdict: set cobalt.dialogue.every_turn=true")
    return rollout.turns
