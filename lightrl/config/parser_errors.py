"""Errors of jsonargparse, reduced to the key and the cause."""

from __future__ import annotations

import re

from lightrl.config.errors import ConfigError

_KEY = re.compile(r"[Pp]arser key \"([^\"]+)\"")
_PROBLEM = re.compile(r"Problem with given class_path '([^']+)':\s+(\S.*)")
_ITEM = re.compile(r"Errors:\s+- (?!Problem|Expected|Not a valid)(.+)")
_CAUSES = (
    r"Option '.*' is not accepted",
    r"arguments are required|required",
    r"No module named|not a correct import path|not valid\b",
    r"abstract|not allowed|unexpected|No action",
    r"Expected",
)
"""Patterns of the line that states the cause, the most telling first: a report over a Union has a line for each member."""


def cause_of(message: str) -> str:
    """The line of a message that states the cause: of a class that cannot be built, what that class has said."""
    if (problem := _PROBLEM.search(message)) is not None:
        return f"{problem[1].rpartition('.')[2]}: {problem[2]}"
    item = _ITEM.search(message)
    return message.strip().splitlines()[0] if item is None else item[1]


def reduced(message: str) -> ConfigError:
    """The short form of a message of jsonargparse: its key path, and the line that states the cause.

    Args:
        message: as raised, possibly a report over all members of a Union.
    """
    key = ".".join(dict.fromkeys(_KEY.findall(message)))
    lines = [_KEY.sub("", line).strip(" -:\t") for line in message.splitlines()]
    found = [line for cause in _CAUSES for line in lines if re.search(cause, line, re.I)]
    cause = found[0] if found else lines[0]
    return ConfigError(key, cause, "See: lightrl fit --help")
