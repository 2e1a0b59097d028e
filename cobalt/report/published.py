"""What papers report, as far as it is known here: their abstracts."""

from __future__ import annotations

UNKNOWN = "not given in the abstract"
# Abstract of arXiv 2602.03806: Cobalt's largest gain in Pass@1 on LiveCodeBench, in points, by configuration.
GAINS = {"r1-distill-llama-8b": 9.0, "qwen3-8b": 6.2}
# It says of these two that Cobalt outperforms them, and nothing more.
BEATEN = ("mt_grpo", "verpo")
# Abstract of arXiv 2605.28409, the other paper of which there are configurations.
OFFLINE = f"most gain on small models and hard problems; figures are {UNKNOWN}"
ABOUT_PUBLISHED = (
    "Published: from the abstract of arXiv 2602.03806 (of 2605.28409 for offline RL), which does not say at "
    "which turn, or against which score, its gains are the largest."
)


def published(config: str | None, tasks: str | None, recipe: str | None) -> str | None:
    """What is known of the paper's result for a recipe trained by a configuration, on a set of tasks.

    UNKNOWN for what the paper has but does not say in its abstract; None for an untrained model and for a
    configuration that is none of the paper's.
    """
    if config is None or recipe is None:
        return None
    if config.startswith("offline-codenet"):
        return OFFLINE
    gain = GAINS.get(config.removesuffix("-released"))
    if gain is None:
        return None
    if tasks == "livecodebench" and recipe == "cobalt":
        return f"up to {gain:+.1f} points"
    return (
        f"below Cobalt, the figure is {UNKNOWN}" if tasks == "livecodebench" and recipe in BEATEN else UNKNOWN
    )
