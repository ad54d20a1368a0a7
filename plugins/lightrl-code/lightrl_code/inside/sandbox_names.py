"""The names that tests may use: their own, modules of the standard library, and those of the program."""

import builtins
import importlib
from typing import Any

from sandbox_remote import is_callable, is_instance, type_of
from sandbox_session import Broken, Session
from sandbox_tests import PASSED, TYPE_OF, Step, assigned

INDIRECT = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr", "__import__"})
"""Ways to make a name that the code of a test does not show."""


class Names(dict[str, Any]):
    """The namespace of the tests. A name that the tests assign is theirs: the program cannot put a value of its own in its place."""

    def __init__(self, modules: dict[str, set[str]]) -> None:
        super().__init__(__name__="__main__", __builtins__=builtins, isinstance=is_instance, callable=is_callable)
        self._passed: list[int] = []
        self[PASSED], self[TYPE_OF] = self._passed.append, type_of
        self._modules = modules
        self._session: Session | None = None
        self._allowed: set[str] | None = set()
        self._own: set[str] = set()
        self._indirect = False

    def open(self, session: Session, allowed: set[str] | None) -> None:
        """From now on these names of the program are known; None: all."""
        self._session, self._allowed = session, allowed

    def run(self, step: Step) -> bool:
        """Run a test, or what prepares some: whether it went through. What a failed one has assigned is gone.

        Raises:
            Broken: a test went through without passing its asserts.
        """
        mine, read_first = assigned(step.code)
        self._own |= mine - read_first
        self._indirect = self._indirect or not INDIRECT.isdisjoint(step.names())
        self._passed.clear()
        try:
            exec(step.code, self)
        except BaseException:
            self._own |= mine
            for name in mine & self.keys():
                del self[name]
            return False
        if any(number < 0 and self._passed.count(number) > self._passed.count(~number) for number in set(self._passed)):
            return False
        if step.counts and not (self._passed and step.needed <= set(self._passed)):
            raise Broken("a test came to its end and did not reach its asserts, so it says nothing about the program")
        return True

    def __missing__(self, name: str) -> Any:
        if name in self._own:
            raise KeyError(name)
        # a module comes from here even if the program has one of that name: it decides what passes
        if name in self._modules and all(hasattr(importlib.import_module(name), used) for used in self._modules[name]):
            self[name] = importlib.import_module(name)
        elif self._session is not None and not hasattr(builtins, name) and (self._allowed is None or name in self._allowed):
            value = self._session.read("name", name)
            if callable(value):
                self[name] = value
            elif self._indirect:
                raise Broken(f"the tests make names that their code does not show, and {name} may be one, or a value of the program")
            return value
        else:
            raise KeyError(name)
        return self[name]
