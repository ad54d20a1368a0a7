"""Answers that are waited for, or are there already."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from lightrl.workers.calls import Answer

log = logging.getLogger(__name__)


class Pending(Protocol):
    """Calls under way."""

    def result(self) -> list[Answer]:
        """Wait for them: one answer per call, in order."""


@dataclass(frozen=True)
class Done:
    """Answers that are there already."""

    answers: list[Answer]
    """One per call."""

    def result(self) -> list[Answer]:
        """The answers."""
        return self.answers


@dataclass(frozen=True)
class Shares:
    """Answers to come from several places."""

    places: list[list[int]]
    """Per share, the places of its answers among all."""
    futures: list[Future[list[Answer]]]
    """Per share, its answers."""

    def result(self) -> list[Answer]:
        """Wait for all of them; an interrupt cancels what nobody has begun with."""
        answers: dict[int, Answer] = {}
        try:
            for places, future in zip(self.places, self.futures, strict=True):
                answers |= zip(places, future.result(), strict=True)
        except BaseException:
            for future in self.futures:
                future.cancel()
            raise
        return [answers[place] for place in range(len(answers))]


def log_failed_ends(answers: Sequence[Answer]) -> None:
    """Log what `Environment.end` has raised."""
    failures = [answer.error for answer in answers if answer.error is not None]
    if failures:
        log.warning("end() of an environment failed in %d episodes; first: %s", len(failures), failures[0])


def log_failed_ends_later(future: Future[list[Answer]]) -> None:
    """The same, as a callback; the end of episodes that a closed worker took with it is no failure."""
    if not future.cancelled() and future.exception() is None:
        log_failed_ends(future.result())
