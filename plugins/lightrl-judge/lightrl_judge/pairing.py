"""Pairs of completions of a prompt that are compared with each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from lightrl.data.completion_file import CompletionFile
from lightrl.types import Prompt


@dataclass(frozen=True)
class Comparison:
    """Two completions of a prompt."""

    prompt: Prompt
    """The prompt that they answer."""
    one: str
    """A completion."""
    other: str
    """Another."""


def comparisons(file: CompletionFile, per_prompt: int, seed: int) -> list[list[Comparison]]:
    """For each prompt of a file some of its pairs of distinct completions, chosen and ordered by chance.

    Completions that are blank or were cut at the token limit are in none.

    Args:
        file: of completions.
        per_prompt: most pairs of a prompt.
        seed: of the choice; that of a prompt does not depend on other prompts.
    """
    texts: dict[str, dict[str, None]] = {}
    prompts: dict[str, Prompt] = {}
    for i, (text, reason) in enumerate(zip(file.completions, file.finish_reasons, strict=True)):
        prompt = file.prompt(i)
        prompts.setdefault(prompt.id, prompt)
        of_prompt = texts.setdefault(prompt.id, {})
        if text.strip() and reason != "length":
            of_prompt[text] = None
    return [_drawn(prompt, list(texts[name]), per_prompt, random.Random(f"{seed}:{name}")) for name, prompt in prompts.items()]


def _drawn(prompt: Prompt, texts: Sequence[str], most: int, chance: random.Random) -> list[Comparison]:
    pairs = list(combinations(texts, 2))
    return [Comparison(prompt, *chance.sample(pair, 2)) for pair in chance.sample(pairs, min(most, len(pairs)))]
