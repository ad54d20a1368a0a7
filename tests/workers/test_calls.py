"""Calls of foreign code in this process: what the code raises is an answer, and what a person types is not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lightrl.workers.calls import Answer, Inline, answered


class Performer:
    """Makes calls that are functions."""

    def perform(self, call: Callable[[], Any]) -> Answer:
        return answered(call)


def made(call: Callable[[], Any]) -> Answer:
    """The answer of a call in this process."""
    return Inline(Performer()).submit([call]).result()[0]


def own() -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_low_an_interrupt_of_the_codes_own_is_an_answer() -> None:
    error = made(own).error
    assert error is not None
    assert error.startswith("KeyboardInterrupt (")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_the_call_and_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        made(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        made(lambda: made(lambda: signal.raise_signal(signal.SIGINT)))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_gives_way_to_another_one_stays_away() -> None:
    def first(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, first)
    assert made(lambda: signal.raise_signal(signal.SIGINT)).error is None
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL, "the next Ctrl-C ends the process"


def test_a_handler_of_another_is_never_replaced_so_that_no_ctrl_c_comes_between() -> None:
    def ends_after_the_rollout(number: int, frame: object) -> None:
        """Is not run."""

    signal.signal(signal.SIGINT, ends_after_the_rollout)
    assert made(lambda: signal.getsignal(signal.SIGINT)).value is ends_after_the_rollout


def test_low_in_another_thread_every_interrupt_is_the_codes_own() -> None:
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(made(own)))
    thread.start()
    thread.join()
    assert answers[0].error is not None
