"""The program as the tests see it: objects whose calls happen elsewhere."""

import builtins
import threading
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
    """Requests to the program, one at a time. Of a reply, only what its request asked for is read."""

    def __init__(self, channel: wire.Channel, in_place: bool) -> None:
        self._channel, self._in_place = channel, in_place
        self._remotes: dict[int, Remote] = {}
        self._one_at_a_time = threading.Lock()
        self._over: BaseException | None = None

    def start(self, sources: list[str]) -> None:
        """Hand the program over once its sandbox is up."""
        if self._channel.receive().get("ready") is not True:
            raise wire.Closed("it did not start")
        self._channel.send({"sources": sources})

    def loaded(self) -> None:
        """Wait until the program is loaded; raises what it raised."""
        self._value(self._channel.receive())

    def name(self, expression: str) -> Any:
        """The value of an expression over there."""
        return self.request({"do": "name", "name": expression})

    def ask(self, what: str, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
        """Call an object, or one of its methods."""
        given = self._noted(lambda: wire.encode([list(args), kwargs], self._refer))
        reply = self._exchange({"do": what, "on": number, "name": name, "with": given, "in_place": self._in_place})
        changed = reply.pop("changed", None) if self._in_place else None
        value = self._value(reply, ends_loops=name == "__next__")
        if changed is not None:
            _update([list(args), kwargs], self._decoded(changed))
        return value

    def request(self, request: dict[str, Any]) -> Any:
        """Send a request and wait for its value; raises what the program raised."""
        return self._value(self._exchange(request))

    def go_on(self) -> None:
        """Raise what has ended the session, whether or not a test has caught it."""
        if self._over is not None:
            raise self._over

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        def talk() -> dict[str, Any]:
            self._channel.send(request)
            return self._channel.receive()

        with self._one_at_a_time:
            self.go_on()
            return self._noted(talk)

    def _value(self, reply: dict[str, Any], ends_loops: bool = False) -> Any:
        if reply.keys() == {"raised", "arguments"}:
            raise _exception(reply["raised"], reply["arguments"], ends_loops)
        if reply.keys() != {"value"}:
            self._noted(lambda: _refuse(reply))
        return self._decoded(reply["value"])

    def _decoded(self, form: Any) -> Any:
        return self._noted(lambda: wire.decode(form, self._resolve))

    def _noted(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (Broken, wire.Closed) as error:
            self._over = error
            raise

    def _resolve(self, number: Any) -> Remote:
        return self._remotes.setdefault(int(number), Remote(self, int(number)))

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Remote):
            return {"kind": "object", "value": value._number}
        raise Broken(f"a test gives the program a {type(value).__name__}, and only values of built-in types can be given")


def _refuse(reply: dict[str, Any]) -> None:
    raise wire.Closed(f"a reply that was not asked for: {', '.join(reply)}"[:200])


def _exception(name: Any, arguments: Any, ends_loops: bool) -> Exception:
    kind = getattr(builtins, str(name), None)
    told = RuntimeError(f"{name}: {arguments}")
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return told
    # where a value is expected, as in `all(map(f, cases))`, it would end the test's own loop in silence; PEP 479 is of the same mind
    if issubclass(kind, (StopIteration, StopAsyncIteration)) and not ends_loops:
        return told
    try:
        return kind(*arguments)
    except Exception:
        # a kind that wants other arguments than texts
        return told


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
