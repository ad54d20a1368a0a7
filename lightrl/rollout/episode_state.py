"""An episode while it goes on: its tokens only grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from lightrl.ops.random import row_seed
from lightrl.parts.engine import Result
from lightrl.parts.environment import Reply, Said
from lightrl.prompt import JSON, Episode, Message, Prompt, Reading
from lightrl.text.encoding import EncodedTurn


class EpisodeState:
    """The tokens of one row, who wrote which, and the conversation that they spell."""

    def __init__(self, number: int, prompt: Prompt, group: int, key: tuple[int | str, ...], seed: int) -> None:
        """
        Args:
            number: names the episode for engine and environment.
            key: of the random numbers of its first turn, which are those of `row_seed`.
            seed: of its environment.
        """
        self.number, self.prompt, self.group, self.key, self.seed = number, prompt, group, key, seed
        self.row_seed = row_seed(*key)
        self.opening: list[int] = []
        self.tokens: list[int] = []
        self.sampled: list[bool] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.recorded: list[tuple[int, Mapping[str, Tensor]]] = []
        self.told: list[Mapping[str, float]] = []
        self.messages: list[Message] = []
        self.history: list[int] | None = None
        """The tokens that the policy reads next, where these are not all."""
        self.readings: list[Reading] = []
        self.completion = ""
        self.turns = 0
        self.finish_reason: str | None = None
        self._chat = False
        self._rewards: list[float | None] = []
        self._own: list[int] = []
        self._state: dict[str, JSON] = {}
        self._counts: dict[str, float] = {}
        self._failure: tuple[str, bool] | None = None
        self._others = self._read = self._special = self._opened = 0
        self._seconds = 0.0

    @property
    def context(self) -> list[int]:
        """The tokens that the policy reads next; of episodes that have just begun, the list that their group shares."""
        return self.row if self.history is None else self.history

    @property
    def row(self) -> list[int]:
        """All tokens so far."""
        return self.opening + self.tokens if self.tokens else self.opening

    @property
    def chat(self) -> Sequence[Message]:
        """The conversation, for the policy's chat template; empty if it began with a plain text."""
        return self.messages if self._chat else ()

    @property
    def length(self) -> int:
        """Tokens so far."""
        return len(self.opening) + len(self.tokens)

    @property
    def complaint(self) -> str | None:
        """Why the environment has failed, with the prompt's id; None if it has not."""
        return None if self._failure is None else f"prompt {self.prompt.id!r}: {self._failure[0]}"

    def begin(self, said: Said, encoded: EncodedTurn, seconds: float) -> None:
        """Take the opening."""
        self.opening, self._chat = encoded.ids, not isinstance(said, str)
        self._special, self._seconds = encoded.special, seconds
        self.messages += _messages(said)

    def sample(self, result: Result, text: str, opened: bool) -> None:
        """Take a turn of the policy.

        Args:
            text: the decoded turn, without the closing special token.
            opened: it spells the opening of another author's turn.
        """
        self.recorded.append((self.length, result.recorded))
        if self.history is not None:
            self.readings.append(Reading(self.length, len(result.tokens), tuple(self.history)))
        self._add(result.tokens, result.logprobs, sampled=True)
        self.versions += [version for version, _ in result.versions]
        # the last token is read with the next turn, or never
        self._read += result.read + len(result.tokens) - 1
        self._opened += opened
        self.turns += 1
        self.completion = text
        self._rewards.append(None)
        self.told.append({})
        self._own.append(len(self.messages))
        self.messages.append({"role": "assistant", "content": text})

    def hear(self, reply: Reply, seconds: float) -> None:
        """Take what the environment says of the last turn; its words become tokens with `extend`."""
        self._rewards[-1] = reply.reward
        self.told[-1] = reply.extras or {}
        self._seconds += seconds
        if reply.state is not None:
            self._state = dict(reply.state)
        for name, count in (reply.counts or {}).items():
            self._counts[name] = self._counts.get(name, 0.0) + count
        self.messages += _messages(reply.said)

    def extend(self, encoded: EncodedTurn) -> None:
        """Take tokens that others wrote."""
        self._add(encoded.ids, [0.0] * len(encoded.ids), sampled=False)
        if self.history is not None:
            self.history = [*self.history, *encoded.ids]
        self._others += len(encoded.ids)
        self._special += encoded.special

    def fail(self, failure: str, late: bool, seconds: float) -> None:
        """The environment has failed, so nothing can be said of the row."""
        self._failure, self.finish_reason = (failure, late), "failed"
        self._seconds += seconds

    def record(self) -> Episode:
        """The state of an episode so far."""
        failure, late = self._failure or (None, False)
        return Episode(
            messages=tuple(self.messages),
            turns=self.turns,
            rewards=tuple(self._rewards),
            state=self._state,
            failure=failure,
            late=late,
            others=self._others,
            read=self._read,
            seconds=self._seconds,
            special=self._special,
            opened=self._opened,
            counts=self._counts,
            own=tuple(self._own),
            readings=tuple(self.readings),
        )

    def _add(self, ids: list[int], logprobs: list[float], sampled: bool) -> None:
        self.tokens += ids
        self.logprobs += logprobs
        self.sampled += [sampled] * len(ids)


def _messages(said: Said) -> list[Message]:
    if isinstance(said, str):
        return [{"role": "user", "content": said}] if said else []
    return list(said)
