"""One class for each check of the contract of rollout engines, which breaks that check."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from broken_contracts.wrong import wrong

from lightrl import PolicyWeights, Request, Result, TransformersEngine
from lightrl.policy.weights import TrainerWeights

KIND = "rollout engine"


class Engine(TransformersEngine):
    """Spoils what the built-in engine is asked and what it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[int, Request] = {}

    def submit(self, requests: Sequence[Request]) -> None:
        self.asked |= {request.id: request for request in requests}
        super().submit([self.request(request) for request in requests])

    def results(self) -> list[Result]:
        return [self.result(result) for result in super().results()]

    def request(self, request: Request) -> Request:
        return request

    def result(self, result: Result) -> Result:
        return result


def asks(**of: Callable[[Any], Any]) -> dict[str, Any]:
    return {"request": lambda self, request: replace(request, **{name: change(request) for name, change in of.items()})}


def says(**of: Callable[[Any], Any]) -> dict[str, Any]:
    return {"result": lambda self, result: replace(result, **{name: change(result) for name, change in of.items()})}


def samples(**changes: Any) -> dict[str, Any]:
    return asks(sampling=lambda request: replace(request.sampling, **changes))


class OncePerCall(Engine):
    """Broken on purpose: of each call, it answers the first request."""

    def submit(self, requests: Sequence[Request]) -> None:
        super().submit(requests[:1])


class OfWhatWasLeft(Engine):
    """Broken on purpose: its log-probs are those of a colder policy where the draw is truncated."""

    def result(self, result: Result) -> Result:
        whole = self.asked[result.id].sampling.top_k == 0
        return result if whole else replace(result, logprobs=[0.5 * p for p in result.logprobs])


class AlwaysRandom(Engine):
    """Broken on purpose: temperature 0 is 1 to it."""

    def request(self, request: Request) -> Request:
        return replace(request, sampling=replace(request.sampling, temperature=request.sampling.temperature or 1.0))


class LastTurnOnly(Engine):
    """Broken on purpose: of an episode it reads the last two tokens."""

    def request(self, request: Request) -> Request:
        # it keeps keys and values of an episode only if it is told that there is another turn
        return replace(request, context=list(request.context[-2:]), open=False)


class FirstWeights(Engine):
    """Broken on purpose: it copies the weights once."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        self.first: Any = self._policy or copy.deepcopy(weights.policy)
        super().update_weights(TrainerWeights(self.first), version)


class OldKeys(Engine):
    """Broken on purpose: it keeps keys and values when the weights change."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        kept, model = dict(self._kept), self._model
        super().update_weights(weights, version)
        self._kept, self._model = kept, model


class FirstVersion(Engine):
    """Broken on purpose: it names the first version for ever."""

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        super().update_weights(weights, self._version or version)


class SeedsInOrder(Engine):
    """Broken on purpose: random numbers are those of the place in the queue."""

    def request(self, request: Request) -> Request:
        return replace(request, seed=list(self.asked).index(request.id) + 100 * len(self.asked))


class OneCallAtATime(Engine):
    """Broken on purpose: requests under way are dropped for new ones."""

    def submit(self, requests: Sequence[Request]) -> None:
        self._waiting.clear()
        super().submit(requests)


class AtLeastOne(Engine):
    """Broken on purpose: it has a result also if nothing was asked."""

    def results(self) -> list[Result]:
        return super().results() or [Result(0, [1], [0.0], "stop", ((0, 1),), 0)]


class AtWorkAtOnce(Engine):
    """Broken on purpose: a thread waits from the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()
        threading.Thread(target=self.closed.wait, daemon=True).start()

    def close(self) -> None:
        self.closed.set()


def forgets_nothing(self: Engine, episodes: Collection[int]) -> None:
    """Leaves requests under way."""


BROKEN = {
    "every request gets one result, with at least one token and no more than its limit": OncePerCall,
    "a completion ends with one of ends exactly if its finish reason is stop": wrong(Engine, **says(finish_reason=lambda r: "length")),
    "every token has a finite log-prob that is not above 0": wrong(Engine, **says(logprobs=lambda r: [-p for p in r.logprobs])),
    "with exact_logprobs, its log-probs are those of the trainer": wrong(Engine, **says(logprobs=lambda r: [0.5 * p for p in r.logprobs])),
    "its log-probs are those of its temperature": wrong(
        Engine,
        exact_logprobs=False,
        result=lambda self, r: replace(r, logprobs=[self.asked[r.id].sampling.temperature * p for p in r.logprobs]),
    ),
    "top_k, top_p and min_p choose from what they leave, and log-probs stay those of the whole vocabulary": OfWhatWasLeft,
    "tokens are drawn as often as their probability at the temperature says": wrong(Engine, **samples(temperature=1.5)),
    "at temperature 0 it takes the likeliest token": AlwaysRandom,
    "a stop string ends a completion, and its text stays part of it": wrong(Engine, **samples(stop=())),
    "a further turn continues the whole context of its episode": LastTurnOnly,
    "after update_weights its results are those of the new weights": FirstWeights,
    "keys and values of an episode do not outlive the weights that made them": OldKeys,
    "versions name the last weights, and their numbers add up to all tokens": FirstVersion,
    "the random numbers of a request are its own": SeedsInOrder,
    "requests may be added while others are under way": OneCallAtATime,
    "forget drops requests under way": wrong(Engine, forget=forgets_nothing),
    "without requests there are no results": AtLeastOne,
    "nothing starts before start, close ends what start began, and both may be called again": AtWorkAtOnce,
}
