"""Games of several turns: a policy that has learnt games which were played at random, and episodes to evaluate it on."""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from lightrl_workshop.rollouts import rollouts_with

from benchmarks.demo_run import latest, lightrl, logged_to, seeded
from benchmarks.learning.random_policy import write_policy
from lightrl import Environment, PretrainedPolicy, Prompt, TransformersEngine
from lightrl.prompt import Episode

WARM_START = Path(__file__).resolve().parent / "game_warm_start.yaml"


def seed_and_out(said: str | None, folder: str) -> tuple[int, Path]:
    """The arguments of a demonstration: its seed, and the folder that it writes to.

    Args:
        said: about it, in its help.
        folder: the one that it writes to if it is told no other.
    """
    parser = argparse.ArgumentParser(description=said, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, data order and sampling")
    parser.add_argument("--out", type=Path, default=Path(folder), help="folder for logs, policies and the summary")
    arguments = parser.parse_args()
    return arguments.seed, arguments.out


def warm_start(out: Path, games: Sequence[str], apart: str, steps: int, seed: int) -> Path:
    """Train a policy of random weights on whole games, what the game says among them, and return its folder.

    Args:
        out: folder for the games, the policies and the log.
        games: texts.
        apart: a regular expression of what is a token by itself.
        steps: of the optimizer.
        seed: of weights and order.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "games.jsonl").write_text("".join(json.dumps({"game": game}) + "\n" for game in games))
    write_policy(out / "blank", games, apart, seed)
    lightrl(
        "fit", "--config", WARM_START, *seeded(seed), *logged_to(out / "sft"), "--model.policy.path", out / "blank",
        "--data.train.path", out / "games.jsonl", "--trainer.max_steps", steps, "--model.lr_scheduler.total_steps", steps,
    )  # fmt: skip
    return latest(out / "sft") / "policy"


def learnt(config: Path, start: Path, out: Path, seed: int, *words: object) -> Path:
    """Train a policy by a config, and return the folder of what it became.

    Args:
        config: of the run.
        start: the policy's folder.
        out: folder for the log.
        seed: of data order and sampling.
        *words: further ones of the command line.
    """
    lightrl(
        "fit", "--config", config, *seeded(seed), *logged_to(out / "grpo"), "--model.seed", seed, "--model.policy.path", start,
        "--model.engine.seed", seed, *words,
    )  # fmt: skip
    return latest(out / "grpo") / "policy"


def played(game: Environment, choose: Callable[[random.Random, str], str], number: int, draw: random.Random) -> list[str]:
    """Texts of whole games.

    Args:
        game: answers each turn at once, and begins with a text.
        choose: the next turn, given the text so far.
        number: of games.
        draw: random numbers of games and turns.
    """
    texts = []
    for index in range(number):
        text, over = str(game.begin(Prompt(id=str(index), text=""), draw.randrange(2**31))), False
        while not over:
            turn = choose(draw, text)
            reply = game.reply(turn)
            text, over = f"{text}{turn}{reply.said}", reply.done
        texts.append(text)
    return texts


def episodes(policy: Path, game: Environment, stop: Sequence[str], ids: Sequence[str], seed: int) -> Sequence[Episode]:
    """Games of a policy at temperature 1, one for each id."""
    engine = TransformersEngine(max_new_tokens=8, stop=list(stop), seed=seed)
    rollouts = rollouts_with(PretrainedPolicy(str(policy)).build(), engine, game)
    return rollouts.rollout([Prompt(id=chosen, text="") for chosen in ids], 1).episodes


def mean_reward(policy: Path, game: Environment, stop: Sequence[str], ids: Sequence[str], seed: int, at_once: int) -> float:
    """The mean over games of the rewards that a game gives, each added up over its turns; so many are played at a time.

    Raises:
        SystemExit: a game has failed.
    """
    found = list[Episode]()
    for begin in range(0, len(ids), at_once):
        found += episodes(policy, game, stop, ids[begin : begin + at_once], seed + begin)
    if failures := [str(episode.failure) for episode in found if episode.failure is not None]:
        raise SystemExit(f"{len(failures)} of {len(ids)} games have failed; the first: {failures[0]}")
    return statistics.fmean(sum(reward or 0.0 for reward in episode.rewards) for episode in found)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """A mean and its standard error."""
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
