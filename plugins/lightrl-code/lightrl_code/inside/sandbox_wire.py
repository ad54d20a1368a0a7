"""How the examiner and the candidate talk: framed JSON over a socket, and values of built-in types only.

What arrives is data: nothing that the candidate sends can run code in the examiner, and what compares equal is a plain value.
"""

import builtins
import importlib
import io
import json
import os
import resource
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from socket import socket
from typing import Any

LONGEST = 16 * 1024 * 1024
"""Bytes of one message."""
DEEPEST = 10_000
"""Recursion limit while a value is sent or received; Python 3.12.1 itself reads and writes JSON of at most 1,500 levels."""
SAFE_INTEGER = 2**53
"""Larger integers travel as hexadecimal text, which has no limit of digits."""


PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict)
"""Types whose subclasses arrive as the type itself, unless they add something of their own."""
NAMED_TUPLES: Callable[[str, tuple[str, ...]], Any] = cache(namedtuple)
SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
WRITTEN: dict[str, tuple[type[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "Decimal": (Decimal, str, Decimal),
    "Fraction": (Fraction, str, Fraction),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda value: [value.days, value.seconds, value.microseconds], lambda parts: timedelta(*parts)),
    "deque": (deque, lambda value: [list(value), value.maxlen], lambda parts: deque(*parts)),
    "Counter": (Counter, lambda value: dict(value), Counter),
    "OrderedDict": (OrderedDict, lambda value: list(value.items()), OrderedDict),
    "defaultdict": (defaultdict, lambda value: [value.default_factory, dict(value)], lambda parts: defaultdict(*parts)),
}
"""Types of the standard library that are values: each with what is sent of it, and how it is made again."""


class Closed(BaseException):
    """The other side is gone, or what it sent is no message; no `except Exception` of a test takes this for an answer."""


class UnsendableError(Exception):
    """A value that has no form on the wire."""


class Channel:
    """Messages over a socket."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection

    def send(self, message: dict[str, Any]) -> None:
        """Send one; raises `Closed` or, for one that is too long, `UnsendableError`."""
        body = json.dumps(message).encode()
        if len(body) > LONGEST:
            raise UnsendableError(f"a message of {len(body)} bytes, and {LONGEST} are allowed")
        try:
            self._connection.sendall(len(body).to_bytes(4, "big") + body)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> dict[str, Any]:
        """Wait for the next; raises `Closed`."""
        size = int.from_bytes(self._exactly(4), "big")
        if size > LONGEST:
            raise Closed(f"a message of {size} bytes")
        try:
            message = json.loads(self._exactly(size))
        except (ValueError, RecursionError) as error:
            raise Closed(f"no message: {error}") from error
        if not isinstance(message, dict):
            raise Closed("no message")
        return message

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._connection.recv(min(size - len(parts), 1 << 16))
            except OSError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("the other side is gone")
            parts += part
        return bytes(parts)


def encode(value: Any, refer: Callable[[Any], Any]) -> Any:
    """A value as JSON; `refer(value)` gives the form of one that is no value by itself, or raises `UnsendableError`."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind.__name__ in WRITTEN and WRITTEN[kind.__name__][0] is kind:
        return {"kind": kind.__name__, "value": encode(WRITTEN[kind.__name__][1](value), refer)}
    if kind not in PLAIN and has_more(kind):
        return refer(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if abs(value) < SAFE_INTEGER else {"kind": "int", "value": hex(value)}
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return {"kind": "complex", "value": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"kind": "bytes" if isinstance(value, bytes) else "bytearray", "value": value.hex()}
    if isinstance(value, list):
        return [encode(item, refer) for item in value]
    if isinstance(value, tuple) and kind is not tuple and hasattr(kind, "_fields"):
        return {"kind": "namedtuple", "value": [kind.__name__, list(kind._fields), [encode(item, refer) for item in value]]}
    for base in (tuple, set, frozenset):
        if isinstance(value, base):
            return {"kind": base.__name__, "value": [encode(item, refer) for item in value]}
    if isinstance(value, dict):
        return {"kind": "dict", "value": [[encode(key, refer), encode(item, refer)] for key, item in value.items()]}
    return refer(value)


@contextmanager
def deep() -> Iterator[None]:
    """Values may be nested deeper here than calls may be in a program."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def has_more(kind: type[Any]) -> bool:
    """Whether a subclass of a type of values has methods or attributes that a value of that type has not."""
    base = next((base for base in kind.__mro__ if base in PLAIN), object)
    known = {"_fields", "_make", "_replace", "_asdict", "_field_defaults", *getattr(kind, "_fields", ())}
    return any(not name.startswith("__") and not hasattr(base, name) and name not in known for name in dir(kind))


def named(value: Any) -> list[str] | None:
    """Where the standard library has a function or a class; None: it has not."""
    if not callable(value):
        return None
    path = [str(getattr(value, "__module__", None) or "builtins"), str(getattr(value, "__qualname__", ""))]
    if path[0].split(".")[0] not in sys.stdlib_module_names:
        return None
    try:
        return path if find(*path) is value else None
    except (AttributeError, ImportError):
        return None


def find(module: str, name: str) -> Any:
    """The object of a name in a module."""
    return reduce(getattr, name.split("."), importlib.import_module(module))


def decode(form: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of a form; `resolve(kind, value)` gives that of a kind which is no value by itself."""
    if isinstance(form, list):
        return [decode(item, resolve) for item in form]
    if not isinstance(form, dict):
        return form
    try:
        return _decode_kind(form["kind"], form["value"], resolve)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise Closed(f"no value: {error!r}") from error


def _decode_kind(kind: str, value: Any, resolve: Callable[[str, Any], Any]) -> Any:
    if kind in ("object", "error", "coroutine", "named"):
        return resolve(kind, value)
    if kind == "int":
        return int(value, 16)
    if kind == "type":
        found = getattr(builtins, value)
        return found if isinstance(found, type) else resolve(kind, value)
    if kind == "complex":
        return complex(*value)
    if kind in ("bytes", "bytearray"):
        return bytes.fromhex(value) if kind == "bytes" else bytearray.fromhex(value)
    if kind == "dict":
        return {decode(key, resolve): decode(item, resolve) for key, item in value}
    if kind == "namedtuple":
        return NAMED_TUPLES(value[0], tuple(value[1]))(*(decode(item, resolve) for item in value[2]))
    if kind in WRITTEN:
        return WRITTEN[kind][2](decode(value, resolve))
    return SEQUENCES[kind]([decode(item, resolve) for item in value])


def limit(limits: dict[str, int]) -> None:
    """Give up, for good, what is beyond these limits: resource by name, value."""
    for name, most in limits.items():
        kind = getattr(resource, name)
        allowed = resource.getrlimit(kind)[1]
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(kind, (most, most))


class Nothing(io.TextIOBase):
    """Takes output that is not read."""

    def write(self, text: str) -> int:
        """Take it, and say so."""
        return len(text)


def let_go(*names: str) -> None:
    """Replace these standard streams by empty ones: what was opened outside could be changed through its descriptor."""
    reading, writing = os.pipe()
    os.close(writing)
    for name in names:
        os.dup2(reading, ("stdin", "stdout", "stderr").index(name))
        stream: io.TextIOBase = io.StringIO() if name == "stdin" else Nothing()
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.close(reading)
