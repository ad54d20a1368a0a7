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
    """The state of one episode, put in place of the present one for each of its calls."""

    __slots__ = ("_numpy", "_python", "_seed")

    def __init__(self, seed: int) -> None:
        """
        Args:
            seed: at least 0 and below 2^32.
        """
        self._seed = seed
        self._python: Any = None
        self._numpy: Any = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """The generators go on from this state, which is kept afterwards."""
        if self._python is None:
            random.seed(self._seed)
        else:
            random.setstate(self._python)
        generators = _numpy_random()
        if generators is not None:
            self._put(generators)
        try:
            yield
        finally:
            self._python = random.getstate()
            if generators is not None:
                self._numpy = generators.get_bit_generator()

    def give_back(self) -> None:
        """The episode is over."""
        if self._numpy is not None:
            _FREE.append(self._numpy)

    def _put(self, generators: Any) -> None:
        # numpy generators are exchanged, since copying their states is slow
        if self._numpy is not None:
            generators.set_bit_generator(self._numpy)
            return
        generators.set_bit_generator(_FREE.pop() if _FREE else generators.MT19937())
        generators.seed(self._seed)


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
