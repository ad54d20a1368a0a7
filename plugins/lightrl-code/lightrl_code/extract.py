"""The code of a completion."""

import re

from lightrl_code.thoughts import spoken

FENCE = re.compile(r"^[ \t]*```([^\n`]*)\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
PYTHON = frozenset({"python", "py", "python3"})


def code_of(completion: str) -> tuple[str, bool]:
    """The program in a completion, and whether it stood in a fence.

    Thoughts do not count, also those that are not closed. Of several fenced blocks the last one marked as Python is taken, else
    the last one that is not marked; an open fence reaches to the end. Without a fence the whole text is the program.
    """
    text = spoken(completion)
    blocks = [(match[1].strip().lower(), match[2]) for match in FENCE.finditer(text)]
    for marks in (PYTHON, frozenset({""})):
        found = [code for mark, code in blocks if mark in marks]
        if found:
            return found[-1], True
    return text, False
