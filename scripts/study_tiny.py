"""The arms on the tiny task family at equal samples and, online against Cobalt, at equal wall time.

Each arm and seed is a run of `cobalt run` in a folder of its own; what runs have in common they share. The
learning rate of an arm is the better of a grid on development tasks with seed 0. Ends with a table (gains by
seed: trainings differ by more than tasks do) and with `cobalt compare`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from cobalt.cli import parser, positive_int, run_main

ARMS = ("cobalt", "single_turn_grpo", "mt_grpo", "verpo", "cobalt_ptb", "offline_rl", "rejection_sft")
RATES = (1e-4, 4e-4)
EQUAL_WALL = "mt_grpo_equal_wall"
CONTROLS = "{single_turn_training: false, blank_feedback: false, other_feedback: false, best_of_turns: false}"
HELDOUT = "[{name: heldout}, {name: heldout_ptb, source: heldout, kind: perturbed}]"
DATA = ("collect", "repair", "judge", "contexts", "ptb_contexts", "parquet")


class Study:
    """Runs of one configuration in the folder `out`."""

    def __init__(self, config: Path, out: Path, steps: int, seeds: int) -> None:
        self.config, self.out, self.steps, self.seeds = config, out, steps, seeds

    def run(
        self, arm: str, rate: float, seed: int, sets: str = HELDOUT, steps: int | None = None
    ) -> dict[str, Any]:
        """One run; returns its results, with its folder."""
        recipe, steps = arm.removesuffix("_equal_wall"), steps or self.steps
        kind = "dev" if sets != HELDOUT else "heldout"
        folder = self.out / "runs" / f"{arm}-lr{rate:g}-steps{steps}-seed{seed}-{kind}"
        # What is not said here is the recipe's own, at the tiny scale.
        train = f"{{recipe: {recipe}, learning_rate: {rate:g}, steps: {steps}}}"
        settings = [f"train={train}", f"controls={CONTROLS}", "perturb=null", f"evaluate.sets={sets}"]
        flags = [word for setting in settings for word in ("--set", setting)]
        where = ["--out", str(folder), "--share", str(self.out / "shared"), "--seed", str(seed)]
        print(f"== {folder.name}", flush=True)
        _cobalt("run", str(self.config), *where, *flags)
        return json.loads((folder / "results.json").read_text()) | {"folder": folder}

    def tuned(self, arm: str) -> float:
        """The rate with the best Pass@1 at the last turn on development tasks."""
        found = {rate: self.run(arm, rate, 0, "[{name: dev, source: dev}]") for rate in RATES}
        return max(RATES, key=lambda rate: found[rate]["pass_at_1"]["cobalt"][-1])

    def arm(self, arm: str, rate: float, steps: int | None = None) -> list[dict[str, Any]]:
        """The runs of an arm, one for each seed."""
        return [self.run(arm, rate, seed, steps=steps) for seed in range(self.seeds)]


def seconds(found: dict[str, Any], names: tuple[str, ...]) -> float:
    """Wall seconds of some stages of a run, those taken over from another run included."""
    return float(sum(stage["wall_s"] for stage in found["stages"] if stage["name"] in names))


def row(name: str, runs: list[dict[str, Any]]) -> str:
    """A line of the table: Pass@1 at the last turn, and the gain over the reference, over seeds."""
    last = [100 * each["pass_at_1"]["cobalt"][-1] for each in runs]
    gains = [each["final_turn_gain"]["points"] for each in runs]
    wall = mean(seconds(each, (*DATA, "train")) for each in runs)
    by_seed = ", ".join(f"{gain:+.1f}" for gain in gains)
    steps = runs[0]["training"]["steps"]
    return f"| {name} | {steps} | {mean(last):.1f} | {mean(gains):+.1f} | {by_seed} | {wall:.0f} |"


def _cobalt(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "cobalt", *words])
    if done.returncode:
        sys.exit(done.returncode)


def main(argv: list[str] | None = None) -> int:
    """Run and compare the arms; returns the exit code."""
    flags = parser("Train and compare the arms on the tiny task family. Run again to continue.")
    flags.add_argument("--config", type=Path, default=Path("configs/tiny.yaml"), help="sizes of data")
    flags.add_argument("--out", type=Path, default=Path("outputs/study_tiny"), help="folder of the study")
    flags.add_argument("--steps", type=positive_int, default=30, help="training steps of every arm")
    flags.add_argument("--seeds", type=positive_int, default=3, help="runs per arm")
    flags.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), help="which arms")
    flags.add_argument("--no_equal_wall", action="store_true", help="without the arm at equal wall time")
    args = flags.parse_args(argv)
    study = Study(args.config, args.out, args.steps, args.seeds)
    rates = {arm: study.tuned(arm) for arm in args.arms}
    found = {arm: study.arm(arm, rate) for arm, rate in rates.items()}
    if not args.no_equal_wall and {"cobalt", "mt_grpo"} <= set(args.arms):
        budget = seconds(found["cobalt"][0], (*DATA, "train"))
        step = seconds(found["mt_grpo"][0], ("train",)) / study.steps
        found[EQUAL_WALL] = study.arm(EQUAL_WALL, rates["mt_grpo"], max(1, round(budget / step)))
    table = "| arm | steps | Pass@1, last turn, % | gain, points | by seed | seconds |\n"
    table += "|---|---|---|---|---|---|\n" + "".join(f"{row(name, runs)}\n" for name, runs in found.items())
    (args.out / "study.md").write_text(table)
    print(table)
    first = {name: runs[0]["folder"] / "evaluate" for name, runs in found.items()}
    files = [f"{name}={folder}/cobalt_eval.jsonl" for name, folder in first.items()]
    _cobalt("compare", f"reference={next(iter(first.values()))}/reference_eval.jsonl", *files)
    return 0


if __name__ == "__main__":
    run_main(main)
