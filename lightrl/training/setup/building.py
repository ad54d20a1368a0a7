"""Checks and settings around a policy that has just been built, and the prompts that it is built for."""

from __future__ import annotations

import torch
from lightning.pytorch import Trainer

from lightrl.data.prompt_data import PromptData
from lightrl.policy.policy import Policy

ONE_THREAD_BELOW = 2_000_000
"""Policies smaller than this run on one CPU thread: a second one makes them slower on a busy machine."""


def check_room(policy: Policy, max_new_tokens: int) -> None:
    """Refuse completions that are as long as the policy's rows, since prompts would have no room.

    Args:
        policy: says how long a row may be.
        max_new_tokens: of the engine.

    Raises:
        ValueError: there is no room for a prompt.
    """
    positions = policy.max_positions
    if positions is not None and max_new_tokens >= positions:
        raise ValueError(
            f"model.engine.max_new_tokens is {max_new_tokens}, but the policy takes rows of {positions} tokens at most, prompt included: "
            f"set it below {positions}"
        )


def choose_threads(policy: torch.nn.Module) -> str | None:
    """Take one CPU thread for a small policy; gives the sentence that says so, or None if nothing changed."""
    size = sum(p.numel() for p in policy.parameters())
    if size >= ONE_THREAD_BELOW or torch.get_num_threads() == 1:
        return None
    torch.set_num_threads(1)
    return f"The policy has {size:,} parameters: using one CPU thread, which is faster at this size."


def prompts_of(trainer: Trainer) -> PromptData:
    """The prompts of a run.

    Raises:
        ValueError: there are none.
    """
    data: object = getattr(trainer, "datamodule", None)
    if data is None:
        raise ValueError("there is no data: name a prompt source, for example data: {train: DigitSorting}")
    if not isinstance(data, PromptData):
        raise TypeError(
            f"datamodule must be a PromptData or of a subclass, got {type(data).__name__}.\n"
            "Type for example datamodule=PromptData(train=JsonLines(path)), or write a PromptSource that reads your data"
        )
    return data
