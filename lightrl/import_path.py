"""Objects that import paths name: in a config, and in a package whose names are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any

PATH_HELP = "Is it in the working folder, or its folder on PYTHONPATH?"
"""The question that a module raises which is not found."""


LISTED = 30
"""The most names that an error lists."""


class ImportPathError(ValueError):
    """A text that is no import path, or one that leads nowhere."""


def is_import_path(text: str) -> bool:
    """Whether a text is `package.module.name`: nothing is imported from any other, and `check --no-import` lists these."""
    return "." in text and all(part.isidentifier() for part in text.split("."))


def spec_of(module: str) -> ModuleSpec | None:
    """Where a module would be imported from, of which nothing is imported; None: nowhere."""
    top, *inner = module.split(".")
    try:
        # other finders, such as that of an editable install, are asked last
        spec = PathFinder.find_spec(top) or find_spec(top)
    except (ImportError, ValueError):
        return None
    for name in inner:
        spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations or ()) if spec else None
    return spec


def imported(path: str) -> Any:
    """Import the longest module that a path begins with, and give what the names after it mean.

    Raises:
        ImportPathError: it is no import path, and nothing has been imported; or it leads nowhere.
    """
    if not is_import_path(path):
        raise ImportPathError(f"{path!r} is no import path, package.module.name; nothing has been imported")
    names = path.split(".")
    for length in range(len(names) - 1, 0, -1):
        module = ".".join(names[:length])
        try:
            found: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError as error:
            own = error.name is not None and f"{module}.".startswith(f"{error.name}.")
            # a module that is there and lacks one of its own is no reason to look further
            if length == 1 or not own:
                where = PATH_HELP if own else f"{module} imports it, and it is not installed in this environment"
                raise ImportPathError(f"{path!r} cannot be imported: {error}. {where}") from error
        except Exception as error:
            raise _failed(path, error) from error
    for number, name in enumerate(names[length:], length):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            place = f"{'.'.join(names[:number])!r} ({getattr(found, '__file__', None) or type(found).__name__})"
            raise ImportPathError(f"{path!r}: {place} has no {name!r}; it has: {_listed(found)}") from error
        except Exception as error:
            raise _failed(path, error) from error
    return found


def _failed(path: str, error: Exception) -> ImportPathError:
    # `import lightrl` reads this file and is to stay fast
    from lightrl.workers.calls import describe

    return ImportPathError(f"{path!r} cannot be imported: {describe(error)}")


def _listed(found: object) -> str:
    """The public functions and classes of a module or class; of a module those that it has written, if there are any."""
    known = {n: v for n, v in getattr(found, "__dict__", {}).items() if callable(v) and not n.startswith("_")}
    own = [n for n, v in known.items() if getattr(v, "__module__", None) == getattr(found, "__name__", "")]
    return ", ".join(sorted(own or known)[:LISTED]) or "none"


def lazy_names(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, which takes a name from the module that `module_of` has for it, when the name is read."""

    def found(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module_of[name]), name)

    return found
