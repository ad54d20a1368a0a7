"""The distribution of a project by its folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lightrl.config import ConfigError


def name_of(text: str) -> str:
    """The distribution of the project in this folder; if it is no such folder, the text itself.

    Raises:
        ConfigError: the project file cannot be read or has no name.
    """
    file = Path(text) / "pyproject.toml"
    if not file.is_file():
        return text
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(str(file), f"it does not say which package this is: {error}.", "Expected: [project] with a name.") from error
