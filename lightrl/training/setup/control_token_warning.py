"""A warning where texts of the data look as if a chat template had rendered them."""

from __future__ import annotations

from lightning.pytorch.utilities import rank_zero_warn

from lightrl.policy.policy import Policy
from lightrl.prompt import Prompt
from lightrl.text.plain_text import plain_text


class ControlTokenWarning:
    """Counts prompts that spell control tokens, which will be plain text."""

    def __init__(self, policy: Policy) -> None:
        """
        Args:
            policy: whose control tokens are looked for.
        """
        self._first = plain_text(policy.tokenizer, policy.eos_token_ids).control.first
        self._total = self._spelled = 0
        self._example = ("", "")

    def see(self, prompt: Prompt) -> None:
        """Count a prompt.

        Args:
            prompt: of the run; one that is rendered spells nothing.
        """
        self._total += 1
        token = "" if prompt.rendered else next((token for text in _texts(prompt) if (token := self._first(text)[1])), "")
        if token:
            self._spelled += 1
            self._example = (prompt.id, token) if self._spelled == 1 else self._example

    def warn(self) -> None:
        """Say how many there were, and what to set if they were meant."""
        if self._spelled:
            name, token = self._example
            rank_zero_warn(
                f"{self._spelled} of {self._total} training prompts spell control tokens, for example {token!r} in {name!r}, which "
                "are read as plain text: if a chat template has rendered these texts already, set rendered: true of the prompt source"
            )


def _texts(prompt: Prompt) -> list[str]:
    return [prompt.text] if prompt.text is not None else [message["content"] for message in prompt.messages or ()]
