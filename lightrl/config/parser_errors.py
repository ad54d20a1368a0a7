"""Errors of jsonargparse, reduced to the key and the cause."""

from __future__ import annotations

import re

from lightrl.config.errors import ConfigError
from lightrl.registry.renamed import ARGUMENTS, new_argument

_KEY = re.compile(r"[Pp]arser key \"([^\"]+)\"")
_REFUSED = re.compile(r"Option '([^']+)' is not accepted")
_CAUSES = (
    r"Option '.*' is not accepted",
    r"arguments are required|required",
    r"No module named|not a correct import path|not valid\b",
    r"abstract|not allowed|unexpected|No action",
    r"Expected",
)
"""Patterns of the line that states the cause, the most telling first: a report over a Union has a line for each member."""


def reduced(message: str) -> ConfigError:
    """The short form of a message of jsonargparse: its key path, and the line that states the cause.

    Args:
        message: as raised, possibly a report over all members of a Union.
    """
    key = ".".join(dict.fromkeys(_KEY.findall(message)))
    lines = [_KEY.sub("", line).strip(" -:\t") for line in message.splitlines()]
    found = [line for cause in _CAUSES for line in lines if re.search(cause, line, re.I)]
    cause = found[0] if found else lines[0]
    refused = _REFUSED.search(cause)
    renamed = new_argument(refused[1], ARGUMENTS.values()) if refused is not None else ""
    return ConfigError(key, cause + renamed, "See: lightrl fit --help")
