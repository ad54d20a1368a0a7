"""An episode that is over: its conversation, its turns, and how it went; kept free of torch for reward workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from lightrl.prompt import JSON, Message


@dataclass(frozen=True)
class Episode:
    """The record of one row beside its tokens."""

    messages: tuple[Message, ...]
    """The whole conversation. A prompt of plain text is a message of the user, and so is a reply of plain text."""
    turns: int
    """The policy's turns."""
    rewards: tuple[float | None, ...] = ()
    """Per turn the reward of the environment, if it gave one."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """Facts that the environment told last."""
    failure: str | None = None
    """Why the environment has failed, in one line; None if it has not."""
    late: bool = False
    """It has failed because its time was up."""
    others: int = 0
    """Tokens after the opening that others wrote."""
    read: int = 0
    """Tokens that the engine read for it, sampled ones that were fed back included."""
    seconds: float = 0.0
    """Wall-clock seconds in the environment."""
    special: int = 0
    """Special tokens that data or the environment spelled, and that became plain text."""
    opened: int = 0
    """Turns in which the policy wrote the opening of another author's turn."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Numbers that the environment counted, by name."""

    def to_json(self) -> dict[str, JSON]:
        """The record as a JSON value."""
        return asdict(self) | {"messages": list(self.messages), "rewards": list(self.rewards)}

    @classmethod
    def from_json(cls, value: Mapping[str, JSON]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**value, "messages": tuple(value["messages"]), "rewards": tuple(value["rewards"])})
