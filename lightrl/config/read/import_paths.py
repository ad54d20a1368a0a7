"""Import paths in a config: the only code that a config can name beside what installed packages have registered.

They are found without importing anything, wherever they stand, also in a text that is YAML itself: a text counts if `is_import_path`, which
`imported` asks too, takes it, and it begins with a module that would be executed. Rather one too many is listed than one too few.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

import yaml

from lightrl.config.read.settings import Request, Text
from lightrl.import_path import is_import_path
from lightrl.ranks import local_rank
from lightrl.registry.classes import registry

OF_LIBRARIES = (
    "lightrl.callbacks.",
    "lightrl.data.prompt_data.",
    "lightning.pytorch.callbacks.",
    "lightning.pytorch.loggers.",
    "lightning.pytorch.plugins.",
    "lightning.pytorch.profilers.",
    "lightning.pytorch.strategies.",
    "torch.optim.",
)
"""Where classes stand that have short names, so that a resolved config names them by their paths."""


@dataclass(frozen=True)
class ImportPath:
    """A path in a config, and its place."""

    path: str
    """`package.module.name`."""
    key: str
    """Where it stands."""
    source: str
    """The file that gave it, or `command line`."""

    def __str__(self) -> str:
        return f"{self.path} ({self.key}, {self.source})"


def import_paths(request: Request) -> list[ImportPath]:
    """The import paths that a command names, each once; nothing is imported."""
    search_working_folder(request)
    known = registry().places
    found: dict[str, ImportPath] = {}
    for setting in request.settings:
        for key, text in _texts(setting.value, ".".join(setting.path)):
            package, name = text.partition(".")[0], text.rpartition(".")[2]
            has_short_name = (package, name) in known or (text.startswith(OF_LIBRARIES) and name[:1].isupper())
            if _executes(text) and not has_short_name:
                found.setdefault(text, ImportPath(text, key, setting.source))
    return list(found.values())


def search_working_folder(request: Request) -> None:
    """Let Python look into the working folder, after everything else, if a command names code that is nowhere but there."""
    folder = str(Path.cwd())
    texts = {text for setting in request.settings for _, text in _texts(setting.value, "")}
    if folder not in sys.path and any(_executes(text, folder) and not _executes(text) for text in texts):
        sys.path.append(folder)


def announce(request: Request) -> None:
    """Print each import path of a command, once for all processes of a run, before the first is imported."""
    found = import_paths(request)
    if local_rank() == 0:
        sys.stderr.writelines(f"import path: {path}\n" for path in found)


def _texts(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Every text in a value with its key, those in a text of YAML too, whatever is wrong with it: another library may read it."""
    if isinstance(value, (Text, str)):
        text = value.text if isinstance(value, Text) else value
        yield key, text
        with suppress(yaml.YAMLError):
            for event in yaml.parse(text, yaml.SafeLoader):
                if isinstance(event, yaml.ScalarEvent) and event.value != text:
                    yield from _texts(event.value, key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)


def _executes(text: str, folder: str | None = None) -> bool:
    """Whether importing from this path would execute a module, found in a folder or else wherever Python looks."""
    if not is_import_path(text):
        return False
    parts = text.split(".")
    try:
        spec = find_spec(parts[0]) if folder is None else PathFinder.find_spec(parts[0], [folder])
    except (ImportError, ValueError):
        # it is loaded, and was made by a program
        return True
    for length in range(2, len(parts) + 1):
        if not _is_namespace(spec):
            break
        spec = PathFinder.find_spec(".".join(parts[:length]), list(spec.submodule_search_locations or ()) if spec else None)
    return spec is not None and not _is_namespace(spec)


def _is_namespace(spec: ModuleSpec | None) -> bool:
    """A folder without code of its own."""
    return spec is not None and spec.origin is None and spec.submodule_search_locations is not None
