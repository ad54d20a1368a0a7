"""The engine of a recorded rollout: it says what that engine said of its log-probs, and generates nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine, Sampling


class RecordedEngine(RolloutEngine):
    """Stands in for the engine that sampled a recorded rollout."""

    def __init__(self, exact_logprobs: bool, comparable_logprobs: bool, in_process: bool) -> None:
        """
        Args:
            exact_logprobs: of the engine that sampled.
            comparable_logprobs: of the engine that sampled.
            in_process: of the engine that sampled.
        """
        self.exact_logprobs, self.comparable_logprobs, self.in_process = exact_logprobs, comparable_logprobs, in_process
        self.sampling = Sampling()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Nothing is sampled from them."""

    def submit(self, requests: Sequence[Request]) -> None:
        raise RuntimeError("a recorded rollout is replayed, and a replay generates nothing")

    def results(self) -> list[Result]:
        raise RuntimeError("a recorded rollout is replayed, and a replay generates nothing")

    def forget(self, episodes: Collection[int]) -> None:
        """Nothing is kept."""
