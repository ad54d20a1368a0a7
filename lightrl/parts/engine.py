"""Rollout engines: who generates the completions?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lightrl.parts.base import Part
from lightrl.types import Prompt, Rollout


class SampledPolicy(Protocol):
    """The members of a policy that an engine uses; `lightrl.Policy` has them."""

    model: Any
    """A causal LM as transformers has them."""
    tokenizer: Any
    """Its tokenizer."""
    eos_token_ids: frozenset[int]
    """Each of these ends a completion."""

    @property
    def max_positions(self) -> int | None:
        """Longest row the model takes, in tokens; None if it does not say."""

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt, at least one."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn from the policy's distribution."""

    max_new_tokens: int = 256
    """Limit on the tokens of a completion, EOS included; what hits it has the finish reason `length`."""
    temperature: float = 1.0
    """Divides the logits; 0 takes the likeliest token (for evaluation only)."""
    top_p: float = 1.0
    """Keep the likeliest tokens whose probabilities add up to this; in (0, 1]."""
    top_k: int = 0
    """Keep this many of the likeliest tokens; 0 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this likely relative to the likeliest; in [0, 1)."""
    stop: tuple[str, ...] = ()
    """A completion ends as soon as its text contains one of these; the text stays part of it."""

    def __post_init__(self) -> None:
        wrong = {
            "max_new_tokens >= 1": self.max_new_tokens < 1,
            "temperature >= 0": self.temperature < 0,
            "0 < top_p <= 1": not 0 < self.top_p <= 1,
            "top_k >= 0": self.top_k < 0,
            "0 <= min_p < 1": not 0 <= self.min_p < 1,
            "stop as a sequence of texts that are not empty": isinstance(self.stop, str) or "" in self.stop,
        }
        if any(wrong.values()):
            raise ValueError(f"sampling needs {' and '.join(rule for rule, broken in wrong.items() if broken)}, got {self}")


class RolloutEngine(Part):
    """Generates completions with the policy's weights."""

    sampling: Sampling
    """How training rollouts are drawn."""
    exact_logprobs: bool = False
    """`rollout_logprobs` are those of the trainer's own forward: they may serve as old log-probs."""

    @abstractmethod
    def sync(self, policy: SampledPolicy, version: int) -> None:
        """Take the policy's present weights; called before `generate` whenever they may have changed.

        Args:
            policy: with its weights gathered on this rank.
            version: optimizer steps behind them, to be stamped on the rows as `policy_version`.
        """

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """Completions for each prompt.

        Args:
            prompts: B of them; none gives a rollout of no rows.
            n: completions per prompt; rows of a prompt are neighbours and share a group number, 0 to B - 1.
            sampling: in place of the engine's own.
        """
