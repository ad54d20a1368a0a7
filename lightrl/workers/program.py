"""The object that worker processes make calls with, as it travels to them."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightrl.run_end import RunEndedError
from lightrl.workers.calls import Performer, Servant


@dataclass(frozen=True)
class WorkerProgram:
    """An object that makes calls, and the limits of the workers that it makes them in."""

    performer: Performer | Servant
    """Pickled once."""
    part: object
    """The reward, environment or engine behind it, which messages name by its class."""
    noun: str
    """The kind of the part, in messages."""
    inline: str
    """How to choose that the part runs in the training process, in messages."""
    memory_mb: int
    """Megabytes that a worker may take beyond what it has at its start; 0: no limit."""
    modules: Sequence[str] = ()
    """Modules that a worker must be able to import beside those of the classes that are pickled."""
    load_s: float | None = None
    """Seconds that loading may take; None: `worker_process.LOAD_S`."""

    @property
    def name(self) -> str:
        """The class of the part."""
        return type(self.part).__name__

    def setup(self) -> bytes:
        """The first message to a fork server; a RunEndedError if the part cannot be pickled."""
        buffer = io.BytesIO()
        pickler = _ModulePickler(buffer)
        try:
            pickler.dump(self.performer)
        except Exception as error:
            raise RunEndedError(
                f"{self.name} cannot be sent to a worker process ({error}): define it at the top of a module and keep what "
                f"cannot be pickled out of it, or {self.inline} if its calls are quick and always return"
            ) from error
        names = [name for name in dict.fromkeys([*pickler.modules, *self.modules]) if not _is_everywhere(name)]
        modules = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
        return pickle.dumps({"modules": modules, "performer": buffer.getvalue(), "memory_mb": self.memory_mb, "noun": self.noun})


class _ModulePickler(pickle.Pickler):
    """Notes the modules of all classes and functions that it pickles, bases first."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: list[str] = []

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, type):
            self.modules += [cls.__module__ for cls in reversed(obj.__mro__)]
        elif callable(obj) and isinstance(getattr(obj, "__qualname__", None), str) and isinstance(obj.__module__, str):
            self.modules.append(obj.__module__)
        return NotImplemented


def _is_everywhere(name: str) -> bool:
    root = name.partition(".")[0]
    return root == "lightrl" or (root in sys.stdlib_module_names and root != "__main__")
