"""A policy that guesses numbers at random learns to search: warm start, then GRPO over several turns, and a summary of what came of it.

    python benchmarks/guess.py --seed 0 --out runs/guess

The game is TextArena's GuessTheNumber, 1 to 20: secrets, limits, replies and rewards are the package's. The warm start learns games that
were played at random, and so solves less than half. The evaluation plays 2,000 games that no training has seen, 100 of each secret, at
temperature 1. Binary search needs 3.7 guesses.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lightrl_gym import TextArena
from random_policy import write_policy

from lightrl import PretrainedPolicy, Prompt, TransformersEngine
from lightrl.testing.sampling import rollouts_with

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "configs" / "grpo_guess.yaml"
GAME, OPENING = "GuessTheNumber-v0-raw", "1-20?"
NUMBERS = 20
GAMES = 4000
"""Games of the warm start."""
FRESH = 0.25
"""Probability that a random guess which repeats an earlier one is drawn again; it makes repeated numbers rarer, and uses no hint."""
EACH = 100
"""Games of the evaluation with each secret."""
BOUND = 3.7
"""Mean guesses of binary search."""


class Scores(NamedTuple):
    """The games of an evaluation."""

    guesses: float
    """Mean per game, wrong moves included."""
    solved: float
    """Share of games that were won."""


class ChosenSecret(TextArena):
    """The game whose seed is the prompt's id, so that an evaluation can choose the secrets."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> str | list[dict[str, str]]:
        return super().begin(prompt, int(prompt.id))


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=Path("runs/guess"), help="folder for logs, policies and the summary")
    arguments = parser.parse_args()
    seed, out = arguments.seed, arguments.out
    sft, grpo = out / "sft", out / "grpo"
    before = cpu_seconds()
    warm_start(seed, out, sft)
    lightrl(
        "fit", "--config", CONFIG, "--seed_everything", seed, "--data.seed", seed, *logged_to(grpo), "--model.seed", seed,
        "--model.policy.path", latest(sft) / "policy", "--model.engine.seed", seed,
    )  # fmt: skip
    seconds = cpu_seconds() - before
    report(seed, out, evaluate(latest(sft) / "policy", seed), evaluate(latest(grpo) / "policy", seed), seconds)


def warm_start(seed: int, out: Path, sft: Path) -> None:
    """Play at random, and train the policy that GRPO starts from on it."""
    out.mkdir(parents=True, exist_ok=True)
    games = random_games(random.Random(seed))
    (out / "games.jsonl").write_text("".join(json.dumps({"game": game}) + "\n" for game in games))
    write_policy(out / "blank", games, r"\[\d+\]", seed)
    lightrl(
        "fit", "--config", HERE / "guess_warm_start.yaml", "--seed_everything", seed, "--data.seed", seed, *logged_to(sft),
        "--model.policy.path", out / "blank", "--data.train.path", out / "games.jsonl",
    )  # fmt: skip


def random_games(draw: random.Random) -> list[str]:
    """Texts of games that were played without regard to the hints."""
    game = TextArena(GAME, opening=OPENING, chat=False)
    games = []
    for number in range(GAMES):
        text, over = str(game.begin(Prompt(id=str(number), text=""), draw.randrange(2**31))), False
        while not over:
            guess = random_guess(draw, text)
            reply = game.reply(guess)
            text, over = f"{text}{guess}{reply.said}", reply.done
        games.append(text)
    return games


def random_guess(draw: random.Random, text: str) -> str:
    """Any number, whatever the game has said."""
    numbers = [f"[{number}]" for number in range(1, NUMBERS + 1)]
    guess = draw.choice(numbers)
    if guess in text and draw.random() < FRESH:
        return draw.choice([number for number in numbers if number not in text] or numbers)
    return guess


def evaluate(policy: Path, seed: int) -> Scores:
    """Play games that no training has seen, `EACH` with each secret."""
    rollouts = rollouts_with(
        PretrainedPolicy(str(policy)).build(),
        TransformersEngine(max_new_tokens=8, stop=["]"], seed=seed),
        ChosenSecret(GAME, opening=OPENING, chat=False),
    )
    episodes = rollouts.rollout([Prompt(id=str(chosen), text="") for chosen in seeds_of_secrets()], 1).episodes
    count = NUMBERS * EACH
    return Scores(sum(episode.turns for episode in episodes) / count, sum(bool(episode.state.get("won")) for episode in episodes) / count)


def seeds_of_secrets() -> list[int]:
    """Seeds of the package's game, `EACH` for each secret."""
    import textarena

    game = textarena.make(GAME)
    found: Counter[int] = Counter()
    seeds = []
    seed = 0
    while len(seeds) < NUMBERS * EACH:
        game.reset(num_players=1, seed=seed)
        if found[game.game_number] < EACH:
            found[game.game_number] += 1
            seeds.append(seed)
        seed += 1
    return seeds


def report(seed: int, out: Path, start: Scores, final: Scores, seconds: float) -> None:
    """Print the summary, and write it."""
    summary = {
        "seed": seed,
        "start_guesses": round(start.guesses, 3),
        "start_solved": round(start.solved, 4),
        "final_guesses": round(final.guesses, 3),
        "solved": round(final.solved, 4),
        "binary_search": BOUND,
        "train_seconds": round(seconds, 1),
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))
    print(f"means of {NUMBERS * EACH} games at temperature 1, {EACH} of each secret; seconds of processor time, warm start included")


def cpu_seconds() -> float:
    """Processor time of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def lightrl(*arguments: object) -> None:
    """Run the command line, and stop with its status if it fails."""
    command = [sys.executable, "-m", "lightrl", *map(str, arguments)]
    print("$ lightrl " + " ".join(command[3:]), flush=True)
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def logged_to(folder: Path) -> list[object]:
    """Options that put the log of a run into a folder."""
    logger = "lightning.pytorch.loggers.TensorBoardLogger"
    return ["--trainer.logger", logger, "--trainer.logger.save_dir", folder.parent, "--trainer.logger.name", folder.name]


def latest(folder: Path) -> Path:
    """The newest version of a run."""
    return max(folder.glob("version_*"), key=lambda version: int(version.name.split("_")[1]))


if __name__ == "__main__":
    main()
