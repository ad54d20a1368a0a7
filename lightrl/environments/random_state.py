"""Python's and numpy's global random generators, of which every episode has a state of its own."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FREE: list[Any] = []
"""numpy generators of episodes that are over: to make one takes longer than most calls."""


class EpisodeRandom:
    """The state of one episode, in place of the present one within a `with` block, after which it is kept."""

    __slots__ = ("_generators", "_numpy", "_python", "_seed")

    def __init__(self, seed: int) -> None:
        """
        Args:
            seed: at least 0 and below 2^32.
        """
        self._seed = seed
        self._python: Any = None
        self._numpy: Any = None
        self._generators: Any = None

    def __enter__(self) -> None:
        if self._python is None:
            random.seed(self._seed)
        else:
            random.setstate(self._python)
        self._generators = _numpy_random()
        # numpy generators are exchanged, since copying their states is slow
        if self._numpy is not None:
            self._generators.set_bit_generator(self._numpy)
        elif self._generators is not None:
            self._generators.set_bit_generator(_FREE.pop() if _FREE else self._generators.MT19937())
            self._generators.seed(self._seed)

    def __exit__(self, *_: object) -> None:
        self._python = random.getstate()
        # one that was imported in this block is seeded in the next
        if self._generators is not None:
            self._numpy = self._generators.get_bit_generator()

    def give_back(self) -> None:
        """The episode is over."""
        if self._numpy is not None:
            _FREE.append(self._numpy)


@contextmanager
def left_alone() -> Iterator[None]:
    """The generators go on afterwards as if nothing had been drawn."""
    python, generators = random.getstate(), _numpy_random()
    if generators is not None:
        generator, state = generators.get_bit_generator(), generators.get_state(legacy=False)
    try:
        yield
    finally:
        random.setstate(python)
        if generators is not None:
            generators.set_bit_generator(generator)
            generators.set_state(state)


def _numpy_random() -> Any:
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random
