"""The program as the tests see it: objects whose calls, attributes and operators happen elsewhere."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

from sandbox_session import Broken, Session

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
ORDER = ["lt", "le", "gt", "ge"]
ASKED = ("getitem bool str repr hash int float complex index neg pos abs invert round format bytes").split()  # noqa: SIM905 - short
"""Operations on one object; the answer holds until the test changes something."""
CHANGING = ["setitem", "delitem"]
ELSEWHERE = ["aiter", "anext", "aenter", "aexit", "await", "copy", "deepcopy"]


class Remote:
    """An object of the program: what is asked of it happens over there.

    An operator or a comparison between two objects of the program is the program's. One between such an object and a value of the
    test is not: the program would get the value, and could agree with it. There an object counts as the list, number or text that it
    is a kind of; any other equals no value, and a test that computes with both is broken.
    """

    __slots__ = ("_number", "_session")

    def __init__(self, session: Session, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__reduce"):
            raise Broken("a test pickles an object of the program, which would say itself what comes of it")
        return Remote if name == "__class__" else session_of(self).read("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        session_of(self).ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        session_of(self).ask("delattr", self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return session_of(self).ask("call", self, *args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return session_of(self).loop(self)

    def __next__(self) -> Any:
        return session_of(self).next(self)

    def __len__(self) -> int:
        return session_of(self).length(self)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list(self))

    def __contains__(self, item: Any) -> bool:
        session, value = session_of(self), plain(self)
        if not isinstance(value, Remote):
            return item in value
        if isinstance(item, Remote):
            return bool(session.read("contains", self, item))
        if session.read("has_own", self, "__contains__"):
            raise Broken("a test asks whether a value is in an object of the program, which only the program could say")
        return item in list(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Remote):
            return session_of(self).read("eq", self, other) is True
        value = plain(self)
        return NotImplemented if isinstance(value, Remote) else value == other

    def __instancecheck__(self, value: Any) -> bool:
        if isinstance(value, Remote):
            return session_of(self).read("isinstance", value, self) is True
        if session_of(self).read("is_kind_of_value", self):
            raise Broken("a test asks whether a value of a built-in type is of a class of the program")
        return False

    def __subclasscheck__(self, value: Any) -> bool:
        return session_of(self).read("issubclass", value, self) is True

    def __enter__(self) -> Any:
        return session_of(self).ask("enter", self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is not None and (not isinstance(error, Exception) or isinstance(error, AssertionError)):
            return False
        told = None if error is None else [type(error).__name__, [str(argument) for argument in error.args]]
        return session_of(self).ask("leave", self, told) is True


session_of: Callable[[Remote], Session] = Remote.__dict__["_session"].__get__
number_of: Callable[[Remote], int] = Remote.__dict__["_number"].__get__


def plain(value: Any) -> Any:
    """The value of a built-in type that an object is a kind of; the object itself if it is of none."""
    return session_of(value).read("plain", value) if isinstance(value, Remote) else value


def is_instance(value: Any, kinds: Any) -> bool:
    """`isinstance`, of the program's objects and classes too."""
    if isinstance(kinds, tuple):
        return any(is_instance(value, kind) for kind in kinds)
    if isinstance(value, Remote) and type(kinds) is not Remote and isinstance(kinds, type):
        return session_of(value).read("is_of", value, kinds.__module__, kinds.__qualname__) is True
    return isinstance(value, kinds)


def type_of(value: Any) -> Any:
    """`type`, of the program's objects too."""
    return session_of(value).read("type", value) if isinstance(value, Remote) else type(value)


def is_callable(value: Any) -> bool:
    """`callable`, of the program's objects too."""
    return session_of(value).read("callable", value) is True if isinstance(value, Remote) else callable(value)


def _operate(name: str, one: Any, other: Any) -> Any:
    asked = next(side for side in (one, other) if isinstance(side, Remote))
    if isinstance(one, Remote) and isinstance(other, Remote):
        return (session_of(asked).read if name in ORDER else session_of(asked).ask)(name, one, other)
    mine, theirs = plain(one), plain(other)
    if not isinstance(mine, Remote) and not isinstance(theirs, Remote):
        return getattr(operator, name)(mine, theirs)
    if session_of(asked).read("has_own", asked, f"__{name.strip('_')}__", f"__r{name.strip('_')}__"):
        raise Broken(f"a test computes `{name.strip('_')}` of an object of the program and a value, which only the program could say")
    return NotImplemented


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    return (lambda self, other: _operate(name, other, self)) if swapped else (lambda self, other: _operate(name, self, other))


def _asked(name: str, kept: bool) -> Callable[..., Any]:
    def method(self: Remote, *args: Any) -> Any:
        try:
            return (session_of(self).read if kept else session_of(self).ask)(name, self, *args)
        except AttributeError as error:
            raise TypeError(f"the object has no {name}") from error

    return method


def _elsewhere(name: str) -> Callable[..., Any]:
    def method(*_: Any) -> Any:
        raise Broken(f"a test uses `__{name}__` of an object of the program, which is in another process")

    return method


for _name in BINARY + ORDER:
    _function = f"{_name}_" if _name in ("and", "or") else _name
    setattr(Remote, f"__{_name}__", _binary(_function))
    if _name in BINARY:
        setattr(Remote, f"__r{_name}__", _binary(_function, swapped=True))
        setattr(Remote, f"__i{_name}__", _binary(f"i{_name}"))
for _name in ASKED + CHANGING:
    setattr(Remote, f"__{_name}__", _asked(_name, kept=_name in ASKED))
for _name in ELSEWHERE:
    setattr(Remote, f"__{_name}__", _elsewhere(_name))
