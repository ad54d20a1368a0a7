"""An engine that gives completions which somebody else has sampled."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine, Sampling


class RecordedEngine(RolloutEngine):
    """Answers with the completions of a file, rollout by rollout, in the order of the requests; the trainer computes their log-probs."""

    comparable_logprobs = False

    def __init__(self, file: str) -> None:
        """
        Args:
            file: a JSON list of rollouts, each a list of completions, each a list of token ids.
        """
        self.file = Path(file)
        self.sampling = Sampling()
        self._rollouts: list[list[list[int]]] = []
        self._results: list[Result] = []
        self._version = 0

    def start(self) -> None:
        """Read the file."""
        self._rollouts = json.loads(self.file.read_text())

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Remember which weights a rollout is for."""
        self._version = version

    def submit(self, requests: Sequence[Request]) -> None:
        """Answer with the next rollout.

        Raises:
            ValueError: it has another number of completions, or none is left.
        """
        completions = self._rollouts.pop(0) if self._rollouts else []
        if len(completions) != len(requests):
            raise ValueError(f"{self.file}: the next rollout has {len(completions)} completions, and {len(requests)} are asked for")
        self._results += [self._result(*pair) for pair in zip(requests, completions, strict=True)]

    def results(self) -> list[Result]:
        """All that was asked for."""
        found, self._results = self._results, []
        return found

    def forget(self, episodes: Collection[int]) -> None:
        """Nothing is kept of episodes."""

    def _result(self, request: Request, tokens: list[int]) -> Result:
        reason = "stop" if tokens[-1] in request.ends else "length"
        return Result(request.id, tokens, [0.0] * len(tokens), reason, ((self._version, len(tokens)),), 0)
