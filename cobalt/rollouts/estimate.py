"""What a run will take: completions, tokens and, where prices are known, dollars."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from cobalt.engines.base import ChatEngine
from cobalt.rollouts.settings import RolloutSettings
from cobalt.rollouts.source import Source

_CHARACTERS_PER_TOKEN = 4
_USUAL_COMPLETION = 1500  # tokens; the median of 8B reasoning models on such tasks is of this order
_USUAL_FEEDBACK = 200


def price_of(args: argparse.Namespace, engine: ChatEngine) -> tuple[float, float] | None:
    """US dollars per million (prompt, completion) tokens: the flag's, or what the engine knows."""
    if args.prices:
        return float(args.prices[0]), float(args.prices[1])
    known = getattr(engine, "price", None)
    return None if known is None else known()


@dataclass(frozen=True)
class Estimate:
    """`usual` assumes completions of 1,500 tokens (or --max_tokens, if less), `most` full ones; tokens of all
    prompts, of all completions.
    """

    tasks: int
    programs: int
    prompt: int
    usual: tuple[int, int]
    most: tuple[int, int]
    prices: tuple[float, float] | None
    first_cost: float

    @classmethod
    def of(
        cls, source: Source, settings: RolloutSettings, programs: int, turns: int,
        prices: tuple[float, float] | None,
    ) -> Estimate:  # fmt: skip
        size = sum(len(settings.prompts.system) + len(row["instruction"]) for row in source)
        prompt = size // _CHARACTERS_PER_TOKEN // len(source)

        def tokens(completion: int) -> tuple[int, int]:
            shown = prompt + (completion + _USUAL_FEEDBACK) * (turns - 1) // 2  # on average over turns
            return programs * shown, programs * completion

        usual = tokens(min(settings.max_tokens, _USUAL_COMPLETION))
        first = _dollars((prompt, settings.max_tokens), prices) if prices else 0.0
        return cls(len(source), programs, prompt, usual, tokens(settings.max_tokens), prices, first)

    def __str__(self) -> str:
        said = (
            f"dry run: {self.tasks} tasks, {self.programs} completions to sample, about {self.prompt} prompt "
            f"tokens each in the first turn, at most {self.most[1]} completion tokens in all; with "
            f"completions of usual length {self.usual[0]} prompt and {self.usual[1]} completion tokens"
        )
        if self.prices:
            usual, most = _dollars(self.usual, self.prices), _dollars(self.most, self.prices)
            said += f", about ${usual:.2f} (at most ${most:.2f})"
        return said + "; nothing was sampled or written"


def _dollars(tokens: tuple[int, int], prices: tuple[float, float]) -> float:
    return (tokens[0] * prices[0] + tokens[1] * prices[1]) / 1e6
