"""Settings of the tiny reference model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mixture:
    """What follows a failing program in a training dialogue; the shares sum to 1."""

    repeat: float
    guess: float
    repair: float


@dataclass(frozen=True)
class Recipe:
    """Settings of the reference: model size, optimiser, stages."""

    hidden: int = 96
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 24
    mlp: int = 256
    drill_steps: int = 1600  # repairs only, see `drill`
    clean_steps: int = 200
    noisy_steps: int = 250
    clean: Mixture = Mixture(0.05, 0.20, 0.75)
    noisy: Mixture = Mixture(0.60, 0.25, 0.15)
    change_after_pass: float = (
        0.15  # share of all-passed messages followed by another draw of the vague slots
    )
    corrupt: float = 0.08  # share of guesses with one stated slot ignored
    batch_tokens: int = 3000
    lr: float = 3e-3
    seed: int = 2
