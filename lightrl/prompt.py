"""Prompts, the one noun that rewards need, and records of episodes; free of torch, so that worker processes start fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

JSON = Any
"""A value that `json.dumps` takes: None, bool, int, float, str, or lists and string-keyed dicts of them."""

Message = dict[str, JSON]
"""One turn of a conversation: `{"role": "user", "content": "..."}`, texts both; one of data may have `FIELDS` beside them."""
FIELDS = (
    "tool_calls", "reasoning_content", "reasoning", "thinking", "thoughts", "function_call", "tool_plan", "tool_responses", "images",
    "audio", "documents", "name", "tool_call_id",
)  # fmt: skip
"""What a chat template may write of a message beside role and content; the last two only name something."""


@dataclass(frozen=True)
class Prompt:
    """A text or conversation that the policy is to continue, and the data that a reward may need to score the answer."""

    id: str
    """Stable and unique in the data set: the same prompt has the same id in every epoch and after a resume."""
    messages: tuple[Message, ...] | None = None
    """The conversation so far, to be rendered by the tokenizer's chat template; or None if `text` is given."""
    text: str | None = None
    """The raw text to be continued, taken as it is; or None if `messages` is given."""
    answer: JSON = None
    """The reference answer, if the data set has one."""
    columns: Mapping[str, JSON] = field(default_factory=dict)
    """The other columns of the data set; rewards receive them by name."""
    meta: Mapping[str, JSON] = field(default_factory=dict)
    """Notes of samplers and environments that travel with the prompt; never shown to the policy."""
    rendered: bool = False
    """`text` is what a chat template wrote: control tokens that it spells are control tokens, and the tokenizer adds none."""

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.text is None):
            raise ValueError(f"prompt {self.id!r} needs either messages or text, and not both")
        if self.rendered and self.text is None:
            raise ValueError(f"prompt {self.id!r} has messages, which the chat template is to render, and is called rendered")

    def to_json(self) -> dict[str, JSON]:
        """The prompt as a JSON value, for backlogs that travel in a checkpoint."""
        messages = None if self.messages is None else list(self.messages)
        return vars(self) | {"messages": messages, "columns": dict(self.columns), "meta": dict(self.meta)}

    @classmethod
    def from_json(cls, value: Mapping[str, JSON]) -> Prompt:
        """The inverse of `to_json`."""
        messages = value["messages"]
        return cls(**{**value, "messages": None if messages is None else tuple(messages)})


class Reading(NamedTuple):
    """Tokens of a row that the policy sampled after another context than what comes before them in the row."""

    start: int
    """Position of the first one."""
    length: int
    """How many follow each other."""
    context: tuple[int, ...]
    """The token ids that the policy read before them."""


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
    own: tuple[int, ...] = ()
    """Per turn the place of the policy's message among the messages."""
    readings: tuple[Reading, ...] = ()
    """One for each turn, where turns do not read what earlier ones thought; none: each token was sampled after those before it."""

    def to_json(self) -> dict[str, JSON]:
        """The record as a JSON value."""
        readings = [[start, length, list(context)] for start, length, context in self.readings]
        lists = {"messages": list(self.messages), "rewards": list(self.rewards), "own": list(self.own)}
        return asdict(self) | lists | {"readings": readings}

    @classmethod
    def from_json(cls, value: Mapping[str, JSON]) -> Self:
        """The inverse of `to_json`."""
        lists = {name: tuple(value.get(name, ())) for name in ("messages", "rewards", "own")}
        readings = (Reading(start, length, tuple(context)) for start, length, context in value.get("readings", ()))
        return cls(**{**value, **lists, "readings": tuple(readings)})


@dataclass(frozen=True)
class Turn:
    """A turn of the policy in a row: tokens that it sampled one after the other, and what it read before them."""

    read: slice
    """Positions of the tokens between its turn before and this one; of the first turn, of the prompt."""
    said: slice
    """Positions of the tokens that it sampled, EOS included: `advantages[row, turn.said]`."""
    messages: tuple[Message, ...] = ()
    """What it read there: the messages of others since its turn before."""
    text: str | None = None
    """What it said, without the closing special token; None of a row whose record does not say it."""
    reward: float | None = None
    """That of the environment for this turn, before its weight; None if it gave none."""
