"""The forms in which answers are written, so that rewards can read them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lightrl import Prompt
from lightrl.config import ConfigError
from lightrl.types import JSON

FORMS = {
    "bare": "{}",
    "sentence": "The answer is {}.",
    "box": "\\boxed{{{}}}",
    "hashes": "#### {}",
    "tags": "<answer>{}</answer>",
    "tags after thoughts": "<think>\nLet me see.\n</think>\n<answer>{}</answer>",
    "JSON": '{{"answer": "{}"}}',
    "code": "```python\n{}\n```",
}
"""By name; `{}` is the answer's place."""


def answer_text(answer: JSON) -> str | None:
    """The text of a reference answer, the first one of several; None if there is none.

    Args:
        answer: of a prompt, or another column.
    """
    if answer is None or answer == []:
        return None
    first = answer[0] if isinstance(answer, Sequence) and not isinstance(answer, str) else answer
    return first if isinstance(first, str) else json.dumps(first)


def final(text: str) -> str:
    """The answer at the end of a solution: what follows `####`, or is in the last box; the text itself if there is neither.

    Args:
        text: an answer of the data.
    """
    if "####" in text:
        return text.rpartition("####")[2].strip()
    boxes: list[str] = re.findall(r"\\boxed\{([^{}]*)\}", text)
    return boxes[-1] if boxes else text


def own_texts(prompts: Sequence[Prompt], column: str | None) -> list[str | None]:
    """The text that each prompt's data say is right.

    Args:
        prompts: n.
        column: that has it; None: the answer.

    Raises:
        ConfigError: no prompt has this column.
    """
    if column is None:
        return [answer_text(prompt.answer) for prompt in prompts]
    if not any(column in prompt.columns for prompt in prompts):
        there = ", ".join(dict.fromkeys(name for prompt in prompts for name in prompt.columns)) or "none"
        raise ConfigError("--own", f"no prompt has a column {column!r}. There are: {there}.")
    return [answer_text(prompt.columns.get(column)) for prompt in prompts]
