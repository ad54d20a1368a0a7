"""The tokens of a prompt before its episode begins, by which prompts are measured."""

from __future__ import annotations

from collections.abc import Callable

from lightrl.parts.engine import SampledPolicy
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.types import Prompt


def prompt_tokens(policy: SampledPolicy, environment: Environment) -> Callable[[Prompt], list[int]]:
    """Gives the tokens of what a prompt itself says; a prompt that says nothing, for an environment to open, counts as one token.

    Args:
        policy: encodes prompts.
        environment: of the run.
    """
    opens = not isinstance(environment, SingleTurn)

    def tokens(prompt: Prompt) -> list[int]:
        return [0] if opens and prompt.text == "" else policy.encode(prompt)

    return tokens
