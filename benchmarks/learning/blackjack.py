"""A policy that plays Blackjack at random learns to play it well: warm start, then GRPO, and a summary beside the best play there is.

    python -m benchmarks.learning.blackjack --seed 0 --out runs/blackjack

The game is Gymnasium's Blackjack-v1. The warm start learns hands that were played at random. The evaluation plays 20,000 hands that no
training has seen, at temperature 1. Value iteration over the game's states gives the best mean reward that any policy can have.
"""

# ruff: noqa: T201

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from lightrl_gym import Blackjack

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import episodes, learnt, mean_and_error, played, seed_and_out, warm_start
from lightrl.prompt import Episode

CONFIG = config_file("grpo_blackjack")
HIT, STAND = "hit", "stand"
HANDS = 10_000
"""Hands of the warm start."""
STEPS = 600
"""Optimizer steps of the warm start."""
EVALUATED = 20_000
"""Hands of an evaluation."""
SHOWN = re.compile(r"You have (\d+)( with an ace that counts 11)?\. The dealer shows (\d+)\.")
CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
"""Probability of each card; an ace is 1."""


class Hand(NamedTuple):
    """A state of the game."""

    total: int
    soft: bool
    """An ace counts 11."""
    dealer: int
    """The card that the dealer shows."""


class Scores(NamedTuple):
    """The hands of an evaluation."""

    reward: float
    """Mean per hand."""
    error: float
    """Standard error of that mean."""
    best_moves: float
    """Share of the moves that value iteration would have made too."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/blackjack")
    before = cpu_seconds()
    hands = played(game(), lambda draw, _: draw.choice([HIT, STAND]), HANDS, random.Random(seed))
    start = warm_start(out, hands, rf"{HIT}|{STAND}|\d+", STEPS, seed)
    policy = learnt(CONFIG, start, out, seed)
    seconds = cpu_seconds() - before
    first, last = (evaluate(chosen, seed) for chosen in (start, policy))
    write_summary(
        out,
        {
            "seed": seed,
            "start_reward": round(first.reward, 4),
            "final_reward": round(last.reward, 4),
            "standard_error": round(last.error, 4),
            "value_iteration": round(best_reward(), 4),
            "start_best_moves": round(first.best_moves, 4),
            "best_moves": round(last.best_moves, 4),
            "train_seconds": round(seconds, 1),
        },
    )
    print(f"means of {EVALUATED} hands at temperature 1; seconds of processor time, warm start included")


def game() -> Blackjack:
    """The game as the config has it."""
    return Blackjack(opening="", chat=False, wrong_reward=-1.0, wrong_ends=True)


def evaluate(policy: Path, seed: int) -> Scores:
    """Play hands that no training has seen."""
    found = episodes(policy, game(), [HIT, STAND], [f"evaluation {number}" for number in range(EVALUATED)], seed)
    mean, error = mean_and_error([reward_of(episode) for episode in found])
    moves = [move for episode in found for move in moves_of(episode)]
    best = best_values()
    return Scores(mean, error, sum(best[hand][1] == word for hand, word in moves) / len(moves))


def reward_of(episode: Episode) -> float:
    """Of a hand; one that is not played to its end counts as lost."""
    last = episode.rewards[-1]
    return -1.0 if last is None else last


def moves_of(episode: Episode) -> Sequence[tuple[Hand, str]]:
    """The states of a hand, each with what the policy said."""
    found = []
    for shown, said in zip(episode.messages[:-1:2], episode.messages[1::2], strict=False):
        match = SHOWN.search(shown["content"])
        if match:
            found.append((Hand(int(match[1]), bool(match[2]), int(match[3])), said["content"]))
    return found


def best_reward() -> float:
    """The mean reward of the best play, over all hands that can be dealt."""
    best = best_values()
    return sum(
        CARDS[first] * CARDS[second] * CARDS[dealer] * best[taken(taken(Hand(0, False, dealer), first), second)][0]
        for first, second, dealer in product(CARDS, repeat=3)
    )


@cache
def best_values() -> dict[Hand, tuple[float, str]]:
    """What each state is worth under the best play, and its move, by value iteration."""
    states = [Hand(total, soft, dealer) for total in range(2, 22) for soft in (False, True) for dealer in CARDS if total >= 11 or not soft]
    values = dict.fromkeys(states, 0.0)
    while True:
        hit = {hand: sum(chance * values.get(taken(hand, card), -1.0) for card, chance in CARDS.items()) for hand in states}
        better = {hand: max(hit[hand], stand_value(hand)) for hand in states}
        change = max(abs(better[hand] - values[hand]) for hand in states)
        values = better
        if change < 1e-12:
            return {hand: (values[hand], HIT if hit[hand] > stand_value(hand) else STAND) for hand in states}


def taken(hand: Hand, card: int) -> Hand:
    """The hand with another card; a total above 21 is lost."""
    total, soft = hand.total + card, hand.soft
    if card == 1 and not soft and total + 10 <= 21:
        total, soft = total + 10, True
    if total > 21 and soft:
        total, soft = total - 10, False
    return Hand(total, soft, hand.dealer)


def stand_value(hand: Hand) -> float:
    """Chance to win less chance to lose, once no further card is taken."""
    totals = dealer_totals(taken(Hand(0, False, 0), hand.dealer))
    return sum(chance * ((total > 21 or hand.total > total) - (total <= 21 and hand.total < total)) for total, chance in totals.items())


@cache
def dealer_totals(hand: Hand) -> dict[int, float]:
    """Probabilities of the dealer's last total; the dealer takes cards below 17."""
    if hand.total >= 17:
        return {hand.total: 1.0}
    totals: dict[int, float] = {}
    for card, chance in CARDS.items():
        for total, further in dealer_totals(taken(hand, card)).items():
            totals[total] = totals.get(total, 0.0) + chance * further
    return totals


if __name__ == "__main__":
    main()
