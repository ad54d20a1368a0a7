"""The action that a completion names."""

import re
from collections.abc import Mapping

THOUGHTS_END = "</think>"


def action_in(completion: str, actions: Mapping[str, int]) -> int | None:
    """The number of the last action that a completion names, by a word or by its number; None: it names none.

    Args:
        completion: the text; what comes before the end of thinking does not count.
        actions: the number of each word, in lower case.
    """
    text = completion.rpartition(THOUGHTS_END)[2].lower()
    words = {**actions, **{str(number): number for number in actions.values()}}
    # a longer word first: `drop off` is not `drop`
    names = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    found = re.findall(rf"(?<!\w)(?:{names})(?!\w)", text)
    return words[found[-1]] if found else None
