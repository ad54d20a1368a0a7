"""The program as the tests see it: objects whose calls happen elsewhere, and the names that tests may use."""

import builtins
import importlib
from collections.abc import Callable
from typing import Any

import sandbox_wire as wire


class Broken(BaseException):
    """The tests are at fault, whatever the program does; no `except Exception` of a test takes this for an answer."""


class Remote:
    """An object of the program: what is asked of it happens over there."""

    def __init__(self, session: "Session", number: int) -> None:
        self.__dict__.update(_session=session, _number=number)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.ask("call", self._number, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._session.request({"do": "get", "on": self._number, "name": name})


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: Remote, *args: Any) -> Any:
        try:
            return self._session.ask("method", self._number, args, {}, name)
        except AttributeError as error:
            raise TypeError(f"the object has no {name}") from error

    return method


# what tells objects apart (equality, hashing, truth, membership) stays here: the program must not be able to say that it equals everything
for _name in ("len", "iter", "next", "getitem", "setitem", "str", "repr"):
    setattr(Remote, f"__{_name}__", _forwarded(f"__{_name}__"))


class Session:
    """Requests to the program."""

    def __init__(self, channel: wire.Channel, in_place: bool) -> None:
        self._channel, self._in_place = channel, in_place
        self._remotes: dict[int, Remote] = {}

    def start(self, sources: list[str]) -> None:
        """Hand the program over once its sandbox is up."""
        if self._channel.receive().get("ready") is not True:
            raise wire.Closed("it did not start")
        self._channel.send({"sources": sources})

    def loaded(self) -> None:
        """Wait until the program is loaded; raises what it raised."""
        self._reply()

    def name(self, expression: str) -> Any:
        """The value of an expression over there."""
        return self.request({"do": "name", "name": expression})

    def ask(self, what: str, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
        """Call an object, or one of its methods."""
        given = wire.encode([list(args), kwargs], self._refer)
        request = {"do": what, "on": number, "name": name, "with": given, "in_place": self._in_place}
        self._channel.send(request)
        value, after = self._reply()
        if after is not None:
            _update([list(args), kwargs], after)
        return value

    def request(self, request: dict[str, Any]) -> Any:
        """Send a request and wait for its value; raises what the program raised."""
        self._channel.send(request)
        return self._reply()[0]

    def _reply(self) -> tuple[Any, Any]:
        reply = self._channel.receive()
        if "raised" in reply:
            raise _exception(reply["raised"], reply.get("arguments"))
        after = reply.get("arguments")
        return wire.decode(reply.get("value"), self._resolve), None if after is None else wire.decode(after, self._resolve)

    def _resolve(self, number: Any) -> Remote:
        return self._remotes.setdefault(int(number), Remote(self, int(number)))

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Remote):
            return {"kind": "object", "value": value._number}
        raise Broken(f"a test gives the program a {type(value).__name__}, and only values of built-in types can be given")


class Names(dict[str, Any]):
    """The names that a test may use: its own names, modules of the standard library, and the program's names that are allowed."""

    def __init__(self, modules: set[str]) -> None:
        super().__init__(__name__="tests", __builtins__=builtins)
        self._modules = modules
        self._session: Session | None = None
        self._allowed: set[str] | None = set()

    def open(self, session: Session, allowed: set[str] | None) -> None:
        """From now on these names of the program are known; None: all."""
        self._session, self._allowed = session, allowed

    def __missing__(self, name: str) -> Any:
        # a module comes from here even if the program has one of that name: it decides what passes
        if name in self._modules:
            self[name] = importlib.import_module(name)
        elif self._session is not None and not hasattr(builtins, name) and (self._allowed is None or name in self._allowed):
            self[name] = self._session.name(name)
        else:
            raise KeyError(name)
        return self[name]


def _exception(name: Any, arguments: Any) -> Exception:
    kind = getattr(builtins, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return RuntimeError(f"{name}: {arguments}")
    try:
        return kind(*arguments)
    except TypeError:
        return RuntimeError(f"{name}: {arguments}")


def _update(old: Any, new: Any) -> None:
    """Carry what a call changed in place back into the arguments, list by list."""
    if isinstance(old, list) and isinstance(new, list):
        for mine, theirs in zip(old, new, strict=False):
            _update(mine, theirs)
        if old != new:
            old[:] = new
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            _update(old[key], new[key])
        if old != new:
            old.clear()
            old.update(new)
    elif isinstance(old, set) and isinstance(new, set):
        old.clear()
        old.update(new)
    elif isinstance(old, bytearray) and isinstance(new, bytearray):
        old[:] = new
