"""The messages between the training process and an engine in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightrl.parts.engine import Request, Result
from lightrl.rollout.hosting.engine_host import PublishedWeights
from lightrl.rollout.hosting.policy_outline import PolicyOutline


@dataclass(frozen=True)
class Outline:
    """To the worker: the policy that weights will be of."""

    policy: PolicyOutline
    """Without its weights."""
    device: str
    """Of the worker's model."""
    threads: int
    """Of the worker on the CPU."""


@dataclass(frozen=True)
class Update:
    """To the worker: copy the weights; answered by `Updated`."""

    version: int
    """Of the weights."""
    weights: PublishedWeights
    """A worker that has none yet copies all."""


@dataclass(frozen=True)
class Ask:
    """To the worker: continue these requests, decoded together."""

    requests: Sequence[Request]
    """At least one."""


@dataclass(frozen=True)
class Forget:
    """To the worker: drop what is kept of these episodes."""

    episodes: frozenset[int]
    """Numbers."""


@dataclass(frozen=True)
class End:
    """To the worker: close the engine and end."""


@dataclass(frozen=True)
class Updated:
    """From the worker: the engine has taken the weights."""

    version: int
    """Of the weights."""


@dataclass(frozen=True)
class Found:
    """From the worker: some results of what was asked."""

    results: Sequence[Result]
    """At least one."""


@dataclass(frozen=True)
class Failed:
    """From the worker, as its last message: the engine has raised."""

    why: str
    """Type, message and place of the exception, in one line."""
