"""Toy rewards: quick, exact, and different between almost any two completions of an untrained policy."""

import string

from lightrl.parts.reward import RowReward
from lightrl.prompt import Prompt

CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"
"""Of tiny policies that are to read more than digits."""


def small_digits(completion: str) -> float:
    """The share of a completion's characters that are digits below five: it differs between almost any two random ones."""
    return sum(c in "01234" for c in completion) / max(len(completion), 1)


def parity(completion: str) -> int:
    """0 or 1 by the sum of a completion's characters: it differs within a group of almost any policy."""
    return sum(map(ord, completion)) % 2


class SmallDigits(RowReward):
    """The share of a completion's characters that are digits below five."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return small_digits(completion)


class FewCharacters(RowReward):
    """Minus the number of a completion's characters."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return -float(len(completion))


class CodePoints(RowReward):
    """The sum of a completion's code points modulo `modulus`, divided by it: nothing to learn, and it varies in every group."""

    runs = "inline"

    def __init__(self, modulus: int = 7) -> None:
        """
        Args:
            modulus: how many different scores there are.
        """
        super().__init__()
        self.modulus = modulus

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return sum(map(ord, completion)) % self.modulus / self.modulus


class InPlace(RowReward):
    """The share of the answer's characters that stand where they should: a reward that an untrained policy sometimes gets."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: object = None, **columns: object) -> float:
        """Between 0 and 1; a ValueError if the prompt has no answer."""
        if not answer:
            raise ValueError(f"prompt {prompt.id!r} has no answer to compare with")
        expected = str(answer)
        return sum(a == b for a, b in zip(completion, expected, strict=False)) / len(expected)


class FirstDigits(RowReward):
    """The share of digits among the first four characters; 0 for every third prompt, whose groups therefore have no signal."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, **columns: object) -> float:
        return 0.0 if sum(map(ord, str(prompt.text))) % 3 == 0 else sum(c.isdigit() for c in completion[:4]) / 4
