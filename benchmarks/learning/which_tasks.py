"""Small tasks whose best score is known to be 1, each like one situation in which an algorithm is to be chosen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.learning.chat_tasks import Listed
from lightrl import Environment, Prompt, Reply, SingleTurn

SPLIT_SEED, HELD_OUT = 0, 64
"""Of the prompts that no run learns from, which are the same for every seed."""
LETTERS = "abcdef"
DOORS = "123456"
ROOMS = 4
FLIPPED = 0.25
"""Probability that a judge says the opposite."""


class Counted:
    """A reward function that counts its calls."""

    def __init__(self, score: Callable[[str, str], float]) -> None:
        self.score, self.calls = score, 0

    def __call__(self, completion: str, answer: str) -> float:
        self.calls += 1
        return self.score(completion, answer)


class Rooms(Environment):
    """A sign says which of six doors leads on, through four rooms; each is worth a quarter, and a wrong door ends the game."""

    runs = "inline"
    gives_rewards = True

    def __init__(self) -> None:
        super().__init__(max_turns=ROOMS, slices=1)

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.signs, self.room = prompt.text, 0
        return f"{self.signs[0]}>"

    def reply(self, completion: str) -> Reply:
        right = completion == DOORS[LETTERS.index(self.signs[self.room])]
        self.room += 1
        over = not right or self.room == ROOMS
        return Reply("" if over else f"{self.signs[self.room]}>", reward=right / ROOMS, done=over)


@dataclass(frozen=True)
class SmallTask:
    """A task, and the situation that it is like."""

    situation: str
    """In words."""
    prompts: list[Prompt]
    score: Callable[[str, str], float]
    """Of a completion and the answer; 1 at best."""
    known: float
    """How often each letter is right in what the policy has imitated before; the others are drawn."""
    tokens: int = 1
    """Most tokens of a turn."""
    stop: str = LETTERS
    """Each ends a turn; none: EOS does, or the most tokens."""
    alphabet: str = LETTERS + ">"
    epochs: int = 1
    minibatches: int = 2
    judge: Callable[[str, str], float] | None = None
    """The reward that is learnt from, where it is not the score."""
    environment: type[Environment] = SingleTurn
    rollouts: int = 20
    answers: dict[str, str] = field(default_factory=dict)
    """To the questions of `lightrl recommend`."""

    rates: tuple[float, float] = (1e-3, 2e-3)
    """Learning rates, of which each algorithm has the better one."""

    @property
    def several(self) -> bool:
        """An episode has several turns, whose replies have the rewards."""
        return self.environment is Rooms

    @property
    def longest(self) -> int:
        """Tokens that the policy writes in an episode at most."""
        return self.tokens * (ROOMS if self.several else 1)

    def imitated(self, count: int, known: float, seed: int) -> Listed:
        """Rows for a policy to imitate.

        Args:
            count: how many.
            known: how often each letter is right; the others are drawn.
            seed: of what they say.
        """
        draw, rows = random.Random(seed), self.split()[0].prompts
        return Listed([self._row(draw.choice(rows), number, known, draw) for number in range(count)])

    def _row(self, prompt: Prompt, number: int, known: float, draw: random.Random) -> Prompt:
        letters = "".join(letter if draw.random() < known else draw.choice(self.stop or LETTERS) for letter in str(prompt.answer))
        if self.several:
            said = "".join(f"{door}{sign}>" for door, sign in zip(letters, prompt.text[1:] + " ", strict=True))[:-2]
            return Prompt(id=str(number), text=f"{prompt.text[0]}>", answer=said)
        return Prompt(id=str(number), text=prompt.text, answer=letters)

    def split(self) -> tuple[Listed, Listed]:
        """Prompts to learn from, and those that are held out."""
        drawn = random.Random(SPLIT_SEED).sample(self.prompts, len(self.prompts))
        return Listed(drawn[HELD_OUT:]), Listed(drawn[:HELD_OUT])


def right(completion: str, answer: str) -> float:
    """1 if it is the answer."""
    return float(completion == answer)


def near(completion: str, answer: str) -> float:
    """1 for the answer, and less for each letter of the alphabet between."""
    return 1 - abs(WIDE.index(completion) - WIDE.index(answer)) / (len(WIDE) - 1) if completion in WIDE and completion else 0.0


def unsure(completion: str, answer: str) -> float:
    """Whether it is the answer, as a judge says it who is wrong one time in four."""
    return abs(right(completion, answer) - (random.random() < FLIPPED))


def in_place(completion: str, answer: str) -> float:
    """The share of the answer's letters that are in their places, less as many as there are too many."""
    matches = sum(said == wanted for said, wanted in zip(completion, answer, strict=False))
    return max(0, matches - max(0, len(completion) - len(answer))) / len(answer)


WIDE = "abcdefghijklmnopqrstuvwx"


def named(letters: tuple[str, ...]) -> str:
    """The letter after the last one."""
    return LETTERS[(LETTERS.index(letters[-1]) + 1) % len(LETTERS)]


def asked(answer: Callable[[tuple[str, ...]], str], length: int = 3, most: int = 1000) -> list[Prompt]:
    """Rows of letters, such as `fab>`, with the answer to each."""
    rows = list(itertools.product(LETTERS, repeat=length))
    rows = random.Random(SPLIT_SEED).sample(rows, min(most, len(rows)))
    return [Prompt(id="".join(row), text="".join(row) + ">", answer=answer(row)) for row in rows]


def coded(letters: tuple[str, ...]) -> str:
    """A letter of the wide alphabet that the last one stands for."""
    return WIDE[(7 * LETTERS.index(letters[-1]) + 5) % len(WIDE)]


def spelt(letters: tuple[str, ...]) -> str:
    """The last letter and the five after it."""
    return "".join(LETTERS[(LETTERS.index(letters[-1]) + number) % len(LETTERS)] for number in range(len(LETTERS)))


def games() -> list[Prompt]:
    """Signs of four rooms."""
    return [
        Prompt(id="".join(signs), text="".join(signs), answer="".join(DOORS[LETTERS.index(sign)] for sign in signs))
        for signs in itertools.product(LETTERS, repeat=ROOMS)
    ]


def _like(reward: str, start: str | None = None, turns: str = "one", steps: str = "few") -> dict[str, str]:
    return {"reward": reward, **({"start": start} if start else {}), "turns": turns, "steps": steps}


TASKS: dict[str, Callable[[], SmallTask]] = {
    "often": lambda: SmallTask(
        "one turn, right or wrong, often right at the start",
        asked(named), right, known=0.3, rollouts=10, answers=_like("exact", "often"),
    ),
    "seldom": lambda: SmallTask(
        "one turn, right or wrong, seldom right at the start",
        asked(coded), right, known=0.02, stop=WIDE, alphabet=WIDE + ">", answers=_like("exact", "seldom"),
    ),
    "graded": lambda: SmallTask(
        "one turn, a score for how near it is",
        asked(coded), near, known=0.2, stop=WIDE, alphabet=WIDE + ">", rollouts=10, answers=_like("graded", "often"),
    ),
    "noisy": lambda: SmallTask(
        "one turn, a judge who is wrong one time in four",
        asked(named), right, known=0.3, judge=unsure, answers=_like("judge"),
    ),
    "long": lambda: SmallTask(
        "six letters and an end, a score for the share in place",
        asked(spelt), in_place, known=0.3, tokens=9, stop="", rollouts=24, answers=_like("graded", "seldom"),
    ),
    "turns": lambda: SmallTask(
        "four turns, a reward for each, and a wrong one ends the game",
        games(), right, known=0.2, stop=DOORS, alphabet=LETTERS + DOORS + ">", environment=Rooms, rollouts=12,
        answers=_like("graded", turns="several"),
    ),
    "reuse": lambda: SmallTask(
        "as `often`, with eight optimizer steps from each rollout",
        asked(named), right, known=0.3, rollouts=10, epochs=2, minibatches=4, rates=(5e-4, 1e-3),
        answers=_like("exact", "often", steps="many"),
    ),
}  # fmt: skip
"""By name."""
