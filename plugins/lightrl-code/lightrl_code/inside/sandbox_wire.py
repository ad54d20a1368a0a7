"""How the examiner and the candidate talk: framed JSON over a socket, and values of built-in types only.

What arrives is data: nothing that the candidate sends can run code in the examiner, and what compares equal is a plain value.
"""

import io
import json
import os
import resource
import sys
from collections.abc import Callable
from socket import socket
from typing import Any

LONGEST = 16 * 1024 * 1024
"""Bytes of one message."""
SAFE_INTEGER = 2**53
"""Larger integers travel as hexadecimal text, which has no limit of digits."""


SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
BOUNDS: dict[str, Callable[..., Any]] = {"range": range, "slice": slice}


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
    """A value as JSON; `refer(value)` gives the form of one that is no built-in, or raises `UnsendableError`."""
    if value is None or isinstance(value, bool):
        return value
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
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {"kind": kind.__name__, "value": [encode(item, refer) for item in value]}
    if isinstance(value, dict):
        return {"kind": "dict", "value": [[encode(key, refer), encode(item, refer)] for key, item in value.items()]}
    for kind in (range, slice):
        if isinstance(value, kind):
            return {"kind": kind.__name__, "value": [encode(part, refer) for part in (value.start, value.stop, value.step)]}
    return refer(value)


def decode(form: Any, resolve: Callable[[Any], Any]) -> Any:
    """The value of a form; `resolve(number)` gives what a reference stands for."""
    if isinstance(form, list):
        return [decode(item, resolve) for item in form]
    if not isinstance(form, dict):
        return form
    try:
        return _decode_kind(form["kind"], form["value"], resolve)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Closed(f"no value: {error!r}") from error


def _decode_kind(kind: str, value: Any, resolve: Callable[[Any], Any]) -> Any:
    if kind == "object":
        return resolve(value)
    if kind == "int":
        return int(value, 16)
    if kind == "complex":
        return complex(*value)
    if kind in ("bytes", "bytearray"):
        return bytes.fromhex(value) if kind == "bytes" else bytearray.fromhex(value)
    if kind == "dict":
        return {decode(key, resolve): decode(item, resolve) for key, item in value}
    items = [decode(item, resolve) for item in value]
    return BOUNDS[kind](*items) if kind in BOUNDS else SEQUENCES[kind](items)


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
