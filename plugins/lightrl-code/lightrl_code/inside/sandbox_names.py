"""The names that tests may use: their own, modules of the standard library, and those of the program."""

import builtins
import dis
import importlib
from types import CodeType
from typing import Any

from sandbox_remote import Session


class Names(dict[str, Any]):
    """The namespace of the tests. A name that the tests assign is theirs: the program cannot put a value of its own in its place."""

    def __init__(self, modules: set[str]) -> None:
        super().__init__(__name__="tests", __builtins__=builtins)
        self._modules = modules
        self._session: Session | None = None
        self._allowed: set[str] | None = set()
        self._own: set[str] = set()

    def open(self, session: Session, allowed: set[str] | None) -> None:
        """From now on these names of the program are known; None: all."""
        self._session, self._allowed = session, allowed

    def run(self, code: CodeType) -> bool:
        """Run a test, or what prepares some: whether it went through. What a failed one has assigned is gone."""
        assigned, read_first = _assigned(code)
        self._own |= assigned - read_first
        try:
            exec(code, self)
        except BaseException:
            self._own |= assigned
            for name in assigned & self.keys():
                del self[name]
            return False
        return True

    def __missing__(self, name: str) -> Any:
        if name in self._own:
            raise KeyError(name)
        # a module comes from here even if the program has one of that name: it decides what passes
        if name in self._modules:
            self[name] = importlib.import_module(name)
        elif self._session is not None and not hasattr(builtins, name) and (self._allowed is None or name in self._allowed):
            self[name] = self._session.name(name)
        else:
            raise KeyError(name)
        return self[name]


def _assigned(code: CodeType) -> tuple[set[str], set[str]]:
    """The names that a module's code assigns, and those of them that it reads before."""
    assigned: set[str] = set()
    read_first: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            assigned.add(step.argval)
        elif step.opname == "LOAD_NAME" and step.argval not in assigned:
            read_first.add(step.argval)
    return assigned, read_first & assigned
