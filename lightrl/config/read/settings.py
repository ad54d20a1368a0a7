"""The words of a command as settings in the order in which they were given: whole files and single keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.yaml_files import find_config, read_config

FOLDER = "runs"
"""The folder of runs unless the config names another one, below the working directory."""


@dataclass(frozen=True)
class Text:
    """A value as it was typed; the type of its key decides how it is read."""

    text: str


class Item(Text):
    """`--KEY+=VALUE`: one more item of a list."""


@dataclass(frozen=True)
class Setting:
    """One file or one key that was given."""

    path: tuple[str, ...]
    """The key, split at its dots; empty for a whole file."""
    value: Any
    """A `Text` from the command line, or the mapping of a file."""
    source: str
    """The file that gave it, or `command line`."""

    @property
    def content(self) -> dict[str, Any]:
        """The setting as a nested mapping."""
        value = self.value
        for name in reversed(self.path):
            value = {name: value}
        return dict(value)

    @property
    def word(self) -> str:
        """The setting as a word of the command line."""
        return f"--{'.'.join(self.path)}{'+' if isinstance(self.value, Item) else ''}={self.value.text}"


@dataclass
class Request:
    """The settings of a command, and whether it asks for help or for its config."""

    settings: list[Setting] = field(default_factory=list)
    """In order; a later one wins."""
    help: bool = False
    """`--help`: show every key."""
    help_for: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)
    """`--KEY.help [NAME]`: show the classes that a slot takes, or the arguments of one class."""
    print_config: bool = False
    """`--print_config`: show the resolved config and do nothing."""

    @property
    def name(self) -> str:
        """The name of the run: that of the first config file, without its ending."""
        return next((Path(setting.source).stem for setting in self.settings if not setting.path), "default")

    @property
    def folder(self) -> str:
        """Below which runs are logged."""
        return str(self.last("trainer", "default_root_dir") or FOLDER)

    def last(self, *path: str) -> Any:
        """The last value given at a key, as typed or as the file has it; None if there is none."""
        found = None
        for setting in self.settings:
            value = setting.value
            if setting.path:
                value = value.text if setting.path == path else None
            else:
                for name in path:
                    value = value.get(name) if isinstance(value, dict) else None
            found = value if value is not None else found
        return found


def undotted(given: Mapping[Any, Any], key: str) -> dict[str, Any]:
    """`{"a.b": 1}` as `{"a": {"b": 1}}`; a ConfigError for a name that is no visible text."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(key, f"a name in a mapping is a visible text, got {name!a}; quote it: YAML reads no, null and 5 as values.")
        first, dot, rest = name.partition(".")
        below = found.get(first)
        found[first] = {**(below if isinstance(below, dict) else {}), rest: value} if dot else value
    return found


def read_words(words: list[str]) -> Request:
    """Read the words after the verb; a ConfigError for no option, one without its value, an unreadable file."""
    request, rest = Request(), list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            request.help = True
        elif word.partition("=")[0] == "--print_config":
            request.print_config = True
        elif word == "-c" or word.startswith("--"):
            _option(request, word, rest)
        else:
            raise _unexpected(word, rest)
    return request


def _unexpected(word: str, rest: list[str]) -> ConfigError:
    """The refusal of a word that is no option; other libraries write KEY=VALUE, and some tools -KEY VALUE."""
    key, equals, value = word.lstrip("-").partition("=")
    value = value if equals else rest[0] if word.startswith("-") and rest else ""
    meant = f"Type: --{key} {value}" if value else f"For a config type: --config {word}"
    return ConfigError("", f"unexpected word {word!r}: everything after the verb is --KEY VALUE, or --config FILE.", meant)


def _option(request: Request, word: str, rest: list[str]) -> None:
    key, equals, value = word.lstrip("-").partition("=")
    more, key = key.endswith("+"), key.removesuffix("+")
    text = value if equals else _take(rest)
    if key.endswith(".help"):
        request.help_for.append((tuple(key.removesuffix(".help").split(".")), text))
        return
    if text is None:
        raise ConfigError(f"--{key}", f"a value must follow. Type for example: --{key} VALUE, or --{key}=VALUE.")
    if key in ("config", "c"):
        path = find_config(text)
        request.settings.append(Setting((), read_config(str(path)), text if path == Path(text).expanduser() else path.stem))
    else:
        request.settings.append(Setting(tuple(key.split(".")), Item(text) if more else Text(text), "command line"))


def _take(rest: list[str]) -> str | None:
    if not rest or rest[0].startswith("--") or rest[0] in ("-c", "-h"):
        return None
    return rest.pop(0)
