"""What jsonargparse reports, reduced to the key and the cause."""

from __future__ import annotations

import re

from lightrl.cli.errors import ConfigError

_KEY = re.compile(r"[Pp]arser key \"([^\"]+)\"")
_NOISE = re.compile(
    r"^(Does not validate against any of the Union subtypes|Subtypes:|Errors:|Given value type:|Problem with given class_path)"
)


def reduced(message: str) -> ConfigError:
    """The short form of a message of jsonargparse: its key path, and the first line that states a cause.

    Args:
        message: as raised, possibly a report over all members of a Union.
    """
    key = ".".join(part for part in dict.fromkeys(_KEY.findall(message)))
    lines = [_KEY.sub("", line).strip(" -:\t") for line in message.splitlines()]
    causes = [line for line in lines if line and not _NOISE.match(line)]
    stated = [
        line for line in causes if re.search(r"not accepted|not valid|unexpected|Expected|not allowed|No action|required", line, re.I)
    ]
    return ConfigError(key, (stated or causes or [message])[-1] if len(stated) < 2 else stated[0], "See: lightrl fit --help")
