"""Reading YAML so that nothing is silent: numbers as one means them, no key twice, errors with file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from lightrl.config.read.refusals import ConfigError
from lightrl.registry.classes import closest

MOST = 100_000
"""Values that a config may have, each as often as an alias repeats it."""
_INTEGER = re.compile(r"^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][\d_]*)$")
_FLOAT = re.compile(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.[\d_]+)([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")


class _Loader(yaml.SafeLoader):
    """YAML 1.1 except that `1e-6` is a number, `1:30` is none, and a key that stands twice is an error."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # the constructors of PyYAML raise anything for a value that does not fit its tag
            said = f"{node.value!r:.60} cannot be read as {node.tag.rpartition(':')[2]}: {error}"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict, set)):
                raise yaml.constructor.ConstructorError(None, None, "a key is a list or mapping", key_node.start_mark)
            if key in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_NUMBERS = {"tag:yaml.org,2002:int": _INTEGER, "tag:yaml.org,2002:float": _FLOAT}
# those of YAML 1.1 read 1:30 as 90; integers come first, so that whole numbers stay integers
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in _NUMBERS] for first, known in _Loader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, list("-+0123456789."))


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML, a key stands twice or is no name, a value is too large to be read, or it has more than `MOST`.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None and _size(node, {}) > MOST:
            raise yaml.YAMLError(f"it has more than {MOST:,} values, with those that aliases repeat, or one that holds itself")
        return None if node is None else loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ArithmeticError, ValueError) as error:
        raise yaml.YAMLError(str(error)) from error


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node has, those below it counted as often as they are read."""
    if id(node) not in known:
        # what is met again before it is known holds itself
        known[id(node)] = MOST
        inner = node.value if isinstance(node, yaml.CollectionNode) else []
        known[id(node)] = 1 + sum(_size(one, known) for pair in inner for one in (pair if isinstance(pair, tuple) else (pair,)))
    return known[id(node)]


def read_config(path: str) -> dict[str, Any]:
    """The mapping in a config file. ConfigError: there is no such file (with the closest names), or it is not a mapping (with the line)."""
    file = Path(path).expanduser()
    if file.is_dir():
        raise ConfigError("--config", f"{path!r} is a folder.{_listed(file, _names_in(file))}")
    if not file.is_file():
        raise ConfigError("--config", f"there is no file {path!r}.{_neighbours(file)}", *_installed(file))
    try:
        value = parse_yaml(file.read_text())
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise ConfigError(f"{path}{line}", f"bad YAML: {error.problem or error.context}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(path, f"bad YAML: {str(error).splitlines()[0]}") from error
    if value is None:
        raise ConfigError(path, "the config file is empty.")
    if not isinstance(value, dict):
        raise ConfigError(path, f"a config is a mapping of keys (model, data, trainer, ...), got {type(value).__name__}.")
    return value


def find_config(name: str) -> Path:
    """The file that `--config` means: a path, or the name of a config that an installed package brought.

    A file in the working directory comes first; a name has neither a folder nor an ending.
    """
    file = Path(name).expanduser()
    if file.is_file() or len(file.parts) > 1 or file.suffix in (".yaml", ".yml") or file.is_dir():
        return file
    from lightrl.registry.classes import UnknownName
    from lightrl.registry.installed_configs import config_named, installed_configs

    try:
        return config_named(name, installed_configs()).path
    except UnknownName as error:
        raise ConfigError("--config", f"there is no file {name!r} here, and {error}") from error


def _neighbours(file: Path) -> str:
    folder = file.parent
    if not folder.is_dir():
        return f" There is no folder {str(folder)!r} either."
    names = _names_in(folder)
    return closest(file.name, names) + _listed(folder, names)


def _names_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.suffix in (".yaml", ".yml"))


def _listed(folder: Path, names: list[str]) -> str:
    listed = f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return f" In {str(folder)!r}: {listed}." if names else f" {str(folder)!r} has no YAML file."


def _installed(file: Path) -> list[str]:
    from lightrl.registry.installed_configs import installed_configs

    if file.stem not in {config.name for config in installed_configs()}:
        return []
    return [f"An installed package brings a config of that name: --config {file.stem}, or lightrl configs copy {file.stem}"]
