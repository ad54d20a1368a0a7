"""The one way through the prompts of a source before a run begins: lengths, columns, and the hash by which a resume knows their order."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from lightrl.parts.prompts import PromptSource
from lightrl.types import JSON, Prompt
from lightrl.workers.waiting import shown

Encode = Callable[[Prompt], list[int]]
"""The policy's own encoding of a prompt."""
AtMost = Callable[[Prompt], int | None]
"""At most how many tokens a prompt has, found faster than by encoding it; None: only encoding tells."""
ENDLESS_SAMPLE = 16
"""Prompts of an endless source that stand for the rest."""
_WRITTEN = json.JSONEncoder(sort_keys=True, default=str).encode


class Survey:
    """Totals over the prompts of a source, or over those only that are short enough."""

    def __init__(self, bound: int | None = None) -> None:
        """`bound`: most tokens a prompt may have; None: any number."""
        self.bound = bound
        self.fitting = array("q")
        """Indices of the prompts that are short enough."""
        self.too_long = 0
        """Number of the others."""
        self.longest = 0
        """Tokens of the longest one that is too long."""
        self.example: str | None = None
        """The id of the first one that is too long; None if all fit."""
        self.columns: set[str] | None = None
        """Those that every prompt has; None without a prompt."""
        self.contents = ""
        """A hash of ids and contents in their order, once it is known."""
        self.answers = ""
        """A hash of answers and columns in their order, once it is known."""

    def take(self, index: int, prompt: Prompt) -> None:
        """Count a prompt that is short enough."""
        self.fitting.append(index)
        self.columns = set(prompt.columns) if self.columns is None else self.columns.intersection(prompt.columns)

    def leave(self, prompt: Prompt, tokens: int) -> None:
        """Count a prompt that is too long."""
        self.too_long += 1
        self.longest = max(self.longest, tokens)
        self.example = prompt.id if self.example is None else self.example

    def __str__(self) -> str:
        return f"{self.too_long} have more than {self.bound} tokens (the longest {self.longest}), for example {self.example!r}"


def survey(
    source: PromptSource,
    length: Callable[[Prompt], int] = lambda prompt: 0,
    bound: int | None = None,
    watch: Callable[[Prompt], None] | None = None,
    doing: str = "reading prompts",
) -> Survey:
    """Go through a source, and leave out prompts that are too long; of an endless one, through its first prompts.

    Args:
        length: tokens of a prompt.
        bound: most tokens a prompt may have; None: any number.
        watch: is given every prompt that is short enough.
        doing: names the work on the screen.
    """
    found, order, answers = Survey(bound), blake2b(digest_size=16), blake2b(digest_size=16)
    for index in shown(range(ENDLESS_SAMPLE if source.size is None else source.size), doing):
        prompt = source.prompt(index)
        try:
            tokens = length(prompt)
        except ValueError as error:
            raise ValueError(f"{source.place(index)}: {error}") from error
        if bound is not None and tokens > bound:
            found.leave(prompt, tokens)
            continue
        found.take(index, prompt)
        order.update(f"{prompt.id}\n{source.content(index)}\n".encode())
        answers.update(_WRITTEN([prompt.answer, dict(prompt.columns)]).encode())
        if watch is not None:
            watch(prompt)
    found.contents, found.answers = order.hexdigest(), answers.hexdigest()
    return found


def refuse_too_long(prompts: Sequence[Prompt], encode: Encode, bound: int) -> None:
    """Refuse prompts of an endless source that are too long: they cannot be measured beforehand, and dropping one would break the order.

    Raises:
        ValueError: a prompt has more than `bound` tokens, or cannot be encoded.
    """
    for prompt in prompts:
        length = length_of(prompt, encode)
        if length > bound:
            raise ValueError(
                f"prompt {prompt.id!r} of the endless training source has {length} tokens, and at most {bound} are allowed: "
                "an endless source must keep to the limit itself"
            )


def length_of(prompt: Prompt, encode: Encode, at_most: AtMost = lambda prompt: None, bound: int | None = None) -> int:
    """The tokens of a prompt, or a number that is large enough where it is not above the bound; a ValueError if it cannot be encoded."""
    try:
        tokens = at_most(prompt)
        return len(encode(prompt)) if tokens is None or (bound is not None and tokens > bound) else tokens
    except Exception as error:
        raise ValueError(f"prompt {prompt.id!r} cannot be encoded: {error}") from error


REPORTED = ("answers",)
"""Entries that may change without a position meaning another prompt."""


def order_of(survey: Survey, source: PromptSource, shuffle: bool, seed: int) -> dict[str, JSON]:
    """Number of prompts, hashes of their ids and contents in order and of answers and columns, and how they are mixed and shuffled."""
    hashes = {"contents": survey.contents, "answers": survey.answers}
    return {"prompts": source.size, **hashes, "parts_by_weight": sorted(source.shares(0)), "shuffle": shuffle, "seed": seed}


def must_be_the_same(ours: Mapping[str, JSON], theirs: Mapping[str, JSON]) -> None:
    """Raise ValueError, which says what differs, if a position in a checkpoint's order means nothing in that of this run."""
    differing = [name for name in ours if name not in REPORTED and ours[name] != theirs[name]]
    if not differing:
        return
    if "prompts" in differing:
        difference = f"it was trained on {theirs['prompts']} prompts and these are {ours['prompts']}"
    elif "contents" in differing:
        difference = f"its {theirs['prompts']} training prompts had other ids or contents, or stood in another order"
    else:
        difference = ", ".join(f"its data.{name} was {theirs[name]} and is now {ours[name]}" for name in differing)
    raise ValueError(
        f"the checkpoint cannot be resumed with these data: {difference}. Restore the data settings of that run (source, limits, "
        "split, seed), or type --data.other_prompts restart to begin with these from their first one"
    )
