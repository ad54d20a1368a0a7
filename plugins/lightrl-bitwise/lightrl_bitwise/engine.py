"""An engine that samples with the log-probs of `BitwisePolicy`, to the bit."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt

from lightrl import PolicyWeights, Request, Result, RolloutEngine, SampledPolicy, Sampling
from lightrl_bitwise.decoding import DecodedBatch, ReadyWeights
from lightrl_bitwise.drawing import drawn
from lightrl_bitwise.trunk import refuse_other_forms

DROPPED = 0.25
"""Share of the rows of a batch that have ended at which the others go on without them: what they have read is copied then."""


class BitwiseEngine(RolloutEngine):
    """Generates with the policy being trained, token by token, with exact sums.

    Its log-probs are those of `BitwisePolicy` to the bit, and a completion does not depend on the rows beside it. A context is read once
    for all its requests, and that of an episode anew in each turn.
    """

    exact_logprobs = True
    in_process = True

    def __init__(
        self,
        max_new_tokens: Annotated[int, Ge(1)] = 256,
        temperature: Annotated[float, Ge(0)] = 1.0,
        top_p: Annotated[float, Gt(0), Le(1)] = 1.0,
        top_k: Annotated[int, Ge(0)] = 0,
        min_p: Annotated[float, Ge(0), Lt(1)] = 0.0,
        stop: list[str] | None = None,
        max_rows: Annotated[int, Ge(1)] = 64,
        seed: Annotated[int, Ge(0)] = 0,
    ) -> None:
        """
        Args:
            max_new_tokens: limit on the tokens of a completion, EOS included.
            temperature: divides the logits; 0 takes the likeliest token.
            top_p: keep the likeliest tokens whose probabilities add up to this; in (0, 1].
            top_k: keep this many of the likeliest tokens; 0 keeps all.
            min_p: keep tokens at least this likely relative to the likeliest; in [0, 1).
            stop: a completion ends as soon as its text contains one of these.
            max_rows: completions generated at a time, which bounds the memory of keys and values.
            seed: of the random numbers.

        Raises:
            ValueError: an argument outside its range.
        """
        self.sampling = Sampling(max_new_tokens, temperature, top_p, top_k, min_p, tuple(stop or ()))
        if max_rows < 1:
            raise ValueError(f"BitwiseEngine needs max_rows of at least 1, got {max_rows}")
        self.max_rows, self.seed = max_rows, seed
        self._policy: SampledPolicy | None = None
        self._version = 0
        self._weights = ReadyWeights()
        self._waiting: deque[Request] = deque()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Use the trainer's own modules, as they are now. ValueError: the policy has a form that is not computed here."""
        refuse_other_forms(weights.policy.model)
        self._policy, self._version, self._weights = weights.policy, version, ReadyWeights()

    def submit(self, requests: Sequence[Request]) -> None:
        self._waiting.extend(requests)

    @torch.no_grad()
    def results(self) -> list[Result]:
        if not self._waiting:
            return []
        if self._policy is None:
            raise RuntimeError("BitwiseEngine was asked before update_weights(weights, version): there are no weights to sample from")
        first, taken = self._waiting[0], list[Request]()
        while self._waiting and len(taken) < self.max_rows and self._waiting[0].sampling == first.sampling:
            taken.append(self._waiting.popleft())
        return self._decoded(taken, self._policy)

    def forget(self, episodes: Collection[int]) -> None:
        over = frozenset(episodes)
        self._waiting = deque(request for request in self._waiting if request.episode not in over)
        if not self._waiting:
            # training wants this memory
            self._weights = ReadyWeights()

    def _decoded(self, requests: list[Request], policy: SampledPolicy) -> list[Result]:
        alike = [list(run) for _, run in groupby(requests, key=lambda request: id(request.context))]
        rows = [_Row(request, len(request.context) * (i == 0)) for run in alike for i, request in enumerate(run)]
        batch, sampling = DecodedBatch(policy.model, self._weights), requests[0].sampling
        most = max(request.limit for request in requests)
        logits = batch.read([run[0].context for run in alike], [len(run) for run in alike], most)
        going = list(rows)
        while going:
            uniform = torch.tensor([row.numbers.random() for row in going], dtype=torch.float64)
            tokens, logprobs = drawn(logits, uniform, sampling)
            for row, token, logprob in zip(going, tokens.tolist(), logprobs.tolist(), strict=True):
                row.take(token, logprob, policy)
            growing = torch.tensor([row.reason is None for row in going])
            if (~growing).sum() >= DROPPED * len(going):
                kept = growing.nonzero()[:, 0]
                going = [going[i] for i in kept.tolist()]
                if not going:
                    break
                batch.keep(kept)
                tokens, growing = tokens[kept], growing[kept]
            logits = batch.step(tokens, growing)
        return [row.result(self._version) for row in rows]


class _Row:
    """A request, and what was sampled for it."""

    def __init__(self, request: Request, read: int) -> None:
        self._request, self._read = request, read
        self.numbers = random.Random(str(request.seed))
        self.reason: Literal["stop", "length"] | None = None
        """How it has ended; None: it goes on."""
        self._tokens: list[int] = []
        self._logprobs: list[float] = []

    def take(self, token: int, logprob: float, policy: SampledPolicy) -> None:
        """Add a token, unless the row has ended."""
        if self.reason is not None:
            return
        self._tokens.append(token)
        self._logprobs.append(logprob)
        stop = self._request.sampling.stop
        if token in self._request.ends or (stop and any(text in policy.decode(self._tokens) for text in stop)):
            self.reason = "stop"
        elif len(self._tokens) == self._request.limit:
            self.reason = "length"

    def result(self, version: int) -> Result:
        """The result of a row that has ended."""
        reason: Literal["stop", "length"] = self.reason or "length"
        versions = ((version, len(self._tokens)),)
        return Result(self._request.id, self._tokens, self._logprobs, reason, versions, self._read)
