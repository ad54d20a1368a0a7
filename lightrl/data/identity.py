"""The identity of a prompt among the sources of a run: which prompts must not be on both sides of a split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b

from lightrl.data.content import content_hash
from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt

Identity = Callable[[Prompt], str]
"""Equal for prompts that count as one."""


def identity_in(sources: Iterable[PromptSource]) -> Identity:
    """The identity by which prompts of these sources are told apart.

    It is the content. A content that one source has with several answers does not decide what is asked: such prompts differ by
    their answers as well.

    Args:
        sources: of the run; those that are endless have no part in it.
    """
    several = {content for source in sources for content in _with_several_answers(source)}

    def identity(prompt: Prompt) -> str:
        content = content_hash(prompt)
        return f"{content} {_answer_hash(prompt)}" if content in several else content

    return identity


def _with_several_answers(source: PromptSource) -> set[str]:
    answers: dict[str, set[str]] = {}
    for index in range(source.size or 0):
        prompt = source.prompt(index)
        answers.setdefault(content_hash(prompt), set()).add(_answer_hash(prompt))
    return {content for content, found in answers.items() if len(found) > 1}


def _answer_hash(prompt: Prompt) -> str:
    return blake2b(json.dumps(prompt.answer, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
