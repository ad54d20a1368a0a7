"""Checks and settings around a policy that has just been built, and the prompts that it is built for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities import rank_zero_warn

from lightrl.data.prompt_data import PromptData
from lightrl.parts.engine import SampledPolicy
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.policy.policy import Policy
from lightrl.prompt import Prompt
from lightrl.text.plain_text import plain_text

ONE_THREAD_BELOW = 2_000_000
"""Policies smaller than this run on one CPU thread: a second one makes them slower on a busy machine."""


def check_room(policy: Policy, max_new_tokens: int) -> None:
    """Refuse completions that are as long as the policy's rows, since prompts would have no room."""
    positions = policy.max_positions
    if positions is not None and max_new_tokens >= positions:
        raise ValueError(
            f"model.engine.max_new_tokens is {max_new_tokens}, but the policy takes rows of {positions} tokens at most, prompt included: "
            f"set it below {positions}"
        )


def prompt_tokens(policy: SampledPolicy, environment: Environment) -> Callable[[Prompt], list[int]]:
    """Gives the tokens of what a prompt itself says; a prompt that says nothing, for an environment to open, counts as one token."""
    opens = not isinstance(environment, SingleTurn)

    def tokens(prompt: Prompt) -> list[int]:
        return [0] if opens and prompt.text == "" else policy.encode(prompt)

    return tokens


def choose_threads(policy: torch.nn.Module) -> str | None:
    """Take one CPU thread for a small policy; gives the sentence that says so, or None if nothing changed."""
    size = sum(p.numel() for p in policy.parameters())
    if size >= ONE_THREAD_BELOW or torch.get_num_threads() == 1:
        return None
    torch.set_num_threads(1)
    return f"The policy has {size:,} parameters: using one CPU thread, which is faster at this size."


def prompts_of(trainer: Trainer) -> PromptData:
    """The prompts of a run; an error says what to type if there are none."""
    data: object = getattr(trainer, "datamodule", None)
    if data is None:
        raise ValueError("there is no data: name a prompt source, for example data: {train: DigitSorting}")
    if not isinstance(data, PromptData):
        raise TypeError(
            f"datamodule must be a PromptData or of a subclass, got {type(data).__name__}.\n"
            "Type for example datamodule=PromptData(train=JsonLines(path)), or write a PromptSource that reads your data"
        )
    return data


class ControlTokenWarning:
    """Counts prompts that spell control tokens, which will be plain text."""

    def __init__(self, policy: Policy) -> None:
        self._first = plain_text(policy.tokenizer, policy.eos_token_ids).control.first
        self._total = self._spelled = 0
        self._example = ("", "")
        self.talks = False
        """A prompt was a conversation."""

    def see(self, prompt: Prompt) -> None:
        """Count a prompt; one that is rendered spells nothing."""
        self._total += 1
        self.talks = self.talks or prompt.text is None
        texts = [prompt.text] if prompt.text is not None else [message["content"] for message in prompt.messages or ()]
        tokens = [] if prompt.rendered else [token for text in texts if (token := self._first(text)[1])]
        if tokens:
            self._spelled += 1
            self._example = (prompt.id, tokens[0]) if self._spelled == 1 else self._example

    def warn(self) -> None:
        """Say how many there were, and what to set if they were meant."""
        if self._spelled:
            name, token = self._example
            rank_zero_warn(
                f"{self._spelled} of {self._total} training prompts spell control tokens, for example {token!r} in {name!r}, which "
                "are read as plain text: if a chat template has rendered these texts already, set rendered: true of the prompt source"
            )
