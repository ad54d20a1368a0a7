"""Turns without their thoughts, in the tokens that the policy sampled."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from lightrl.ops.thoughts import MARKS, answer_span
from lightrl.text.tokenizer import Tokenizer

CHANNEL = "<|channel|>"
"""Opens a channel of gpt-oss, whose thoughts are messages of their own."""
LONGEST_MARK = 12
"""Tokens that a mark and the space behind it may have."""


class StrippedTurns:
    """Leaves thoughts out of the history that a policy reads; all other tokens stay those that were sampled."""

    def __init__(self, tokenizer: Tokenizer, decode: Callable[[Sequence[int]], str]) -> None:
        """`decode`: gives the text of tokens with the marks of thoughts; a ValueError for a tokenizer whose thoughts are messages."""
        if CHANNEL in tokenizer.get_vocab():
            raise ValueError(
                f"model.environment.thoughts is strip, and the policy thinks in messages ({CHANNEL}analysis), whose history only its own "
                "chat template can write: use keep"
            )
        self._tokenizer, self._decode = tokenizer, decode

    def history(self, context: Sequence[int], turn: Sequence[int], text: str) -> list[int]:
        """The token ids that the policy reads later of a context and its turn.

        Args:
            context: token ids, perhaps with a mark at the end that opens a thought.
            turn: the ids that were sampled then, without the one that closes the turn.
            text: the decoded turn, behind the mark of a thought that the context opened and the turn left open.
        """
        return [*self._closed(context), *self._answer(turn, text)]

    def _closed(self, context: Sequence[int]) -> Sequence[int]:
        """The context without the mark of a thought at its end."""
        for count in range(1, min(LONGEST_MARK, len(context)) + 1):
            if self._tokenizer.decode(list(context[-count:]), skip_special_tokens=False).strip() in MARKS:
                return context[:-count]
        return context

    def _answer(self, turn: Sequence[int], text: str) -> Sequence[int]:
        start, stop = answer_span(text)
        if (start, stop) == (0, len(text)):
            return turn
        # templates that leave thoughts out leave the space behind them out, too
        answer = text[start:stop].lstrip()
        if not answer:
            return []
        cuts, behind = range(len(turn) + 1), len(text) - stop
        first = bisect_left(cuts, -len(answer) - behind, key=lambda cut: -len(self._decode(turn[cut:])))
        last = bisect_right(cuts, stop, key=lambda cut: len(self._decode(turn[:cut]))) - 1
        if first < last and self._decode(turn[first:last]) == answer:
            return turn[first:last]
        # one token has the end of the thought and the beginning of the answer
        return self._tokenizer(answer, add_special_tokens=False)["input_ids"]
