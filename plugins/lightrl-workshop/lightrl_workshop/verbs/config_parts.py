"""A policy and prompts with which a config tries an environment."""

from __future__ import annotations

from lightrl.parts.environment import Environment
from lightrl.parts.prompts import PromptSource
from lightrl.policy.tiny import TinyPolicy
from lightrl.prompt import Prompt
from lightrl.text.tokenizer import Tokenizer

TEMPLATE = (
    "{{ tools or '' }}{% for message in messages %}{{ message.role }}: {{ message.content }}"
    "{{ eos_token if message.role == 'assistant' }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


class TinyChat(TinyPolicy):
    """A `TinyPolicy` with a chat template."""

    def tokenizer(self) -> Tokenizer:
        tokenizer = super().tokenizer()
        tokenizer.chat_template = TEMPLATE
        return tokenizer


class ExamplePrompts(PromptSource):
    """The prompts that an environment gives as examples."""

    def __init__(self, environment: Environment) -> None:
        """
        Args:
            environment: whose prompts they are.
        """
        self._prompts = environment.example_prompts()

    @property
    def size(self) -> int:
        return len(self._prompts)

    def prompt(self, index: int) -> Prompt:
        return self._prompts[index]
