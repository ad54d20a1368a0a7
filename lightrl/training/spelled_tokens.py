"""A warning where texts of the data look as if a chat template had rendered them."""

from __future__ import annotations

from collections.abc import Iterable

from lightning.pytorch.utilities import rank_zero_warn

from lightrl.policy.plain_text import plain_text
from lightrl.policy.policy import Policy
from lightrl.prompt import Prompt


def warn_of_control_tokens(policy: Policy, prompts: Iterable[Prompt]) -> None:
    """Say how many prompts spell control tokens that will be plain text, and what to set if they were meant.

    Args:
        policy: whose control tokens are looked for.
        prompts: of the run, those that are rendered included.
    """
    control = plain_text(policy.tokenizer, policy.eos_token_ids).control
    total, spelled = 0, list[tuple[str, str]]()
    for prompt in prompts:
        total += 1
        tokens = () if prompt.rendered else (control.first(text)[1] for text in _texts(prompt))
        spelled += [(prompt.id, token) for token in tokens if token][:1]
    if spelled:
        rank_zero_warn(
            f"{len(spelled)} of {total} training prompts spell control tokens, for example {spelled[0][1]!r} in {spelled[0][0]!r}, which "
            "are read as plain text: if a chat template has rendered these texts already, set rendered: true of the prompt source"
        )


def _texts(prompt: Prompt) -> list[str]:
    return [prompt.text] if prompt.text is not None else [message["content"] for message in prompt.messages or ()]
