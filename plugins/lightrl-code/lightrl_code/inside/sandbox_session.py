"""The examiner's requests to the program, and what came of them."""

import builtins
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import sandbox_wire as wire


class Broken(BaseException):
    """The tests are at fault, whatever the program does; no `except` of a test takes this for an answer."""

    first: "Broken | None" = None
    """The first one, whether or not a test has caught it."""

    def __init__(self, reason: str) -> None:
        """
        Args:
            reason: what the data asks for that cannot be done.
        """
        super().__init__(reason)
        Broken.first = Broken.first or self


class Loop:
    """The items that an object gave to a loop, got one by one; every loop sees the same ones until the test changes something."""

    def __init__(self, more: Callable[[], Any]) -> None:
        self._more, self.items, self.ended = more, list[Any](), False

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while at < len(self.items) or self._another():
            yield self.items[at]
            at += 1

    def _another(self) -> bool:
        if not self.ended:
            try:
                self.items.append(self._more())
            except StopIteration:
                self.ended = True
        return not self.ended


class Session:
    """Requests to the program, one at a time. Of a reply, only what its request asked for is read.

    What the test only looks at (attributes, items, length, truth) is asked once: the answer holds until the test calls, sets or
    deletes something over there.
    """

    def __init__(
        self, channel: wire.Channel, in_place: bool, remote: Callable[["Session", int], Any], number: Callable[[Any], int]
    ) -> None:
        self._channel, self._in_place = channel, in_place
        self._remote, self._number = remote, number
        self._remotes: dict[int, Any] = {}
        self._errors: dict[int, type[Exception]] = {}
        self._seen: dict[Any, Any] = {}
        self._ended: set[int] = set()
        self._given, self._due = Counter[int](), Counter[int]()
        self._one_at_a_time = threading.Lock()
        self._over: wire.Closed | None = None
        self.requests = 0

    def start(self, sources: list[str]) -> None:
        """Hand the program over once its sandbox is up."""
        if self._channel.receive().get("ready") is not True:
            raise wire.Closed("it did not start")
        self._channel.send({"sources": sources})

    def loaded(self) -> None:
        """Wait until the program is loaded; raises what it raised."""
        self._value(self._channel.receive())

    def ask(self, what: str, *args: Any, **kwargs: Any) -> Any:
        """Have something done over there, which may change what was seen before."""
        # a loop that is under way finds out by the other dictionary that something else than its items was asked for
        self._seen = self._seen if what == "next" else {}
        self._seen.clear()
        return self._request(what, args, kwargs, self._in_place and what == "call")

    def read(self, what: str, *args: Any) -> Any:
        """Look at something over there."""
        key = what, json.dumps(self._encoded(args))
        if key not in self._seen:
            self._seen[key] = self._request(what, args, {})
        return self._seen[key]

    def next(self, iterator: Any) -> Any:
        """The next item of an iterator, which ends once."""
        number = self._number(iterator)
        if number in self._ended:
            raise StopIteration
        try:
            item = self.ask("next", iterator)
        except StopIteration:
            self._ended.add(number)
            _fit(self._due[number] or self._given[number], self._given[number])
            raise
        self._given[number] += 1
        return item

    def loop(self, remote: Any) -> Iterator[Any]:
        """The iterator of a loop over an object."""
        number = self._number(remote)
        loop = self._seen.get(("loop", number))
        if loop is None:
            iterator: Iterator[Any] = self._request("iter", (remote,), {})
            if self._number(iterator) == number:
                # it may begin again
                self._ended.discard(number)
                self._due[number] = max(0, self._due[number] - self._given.pop(number, 0))
                return iterator
            loop = self._seen["loop", number] = Loop(lambda: self._request("next", (iterator,), {}))
        return self._counted(loop, remote)

    def length(self, remote: Any) -> int:
        """The length of an object, which is also the number of its items, or 0 where a loop has emptied it."""
        size, number = int(self.read("len", remote)), self._number(remote)
        loop = self._seen.get(("loop", number))
        items = self._given[number] if number in self._ended else len(loop.items) if loop is not None and loop.ended else size
        _fit(size or items, items)
        self._due[number] = self._given[number] + size
        return size

    def _counted(self, loop: Loop, remote: Any) -> Iterator[Any]:
        keys = ("len", json.dumps(self._encoded((remote,)))), ("loop", self._number(remote))
        seen, before = self._seen, dict(self._seen)
        yield from loop
        if seen is self._seen:
            # items that are iterators have cleared it
            seen.update((key, before[key]) for key in keys if key in before)
        if keys[0] in self._seen:
            self.length(remote)

    def go_on(self) -> None:
        """Raise what has ended the session, whether or not a test has caught it."""
        over = Broken.first or self._over
        if over is not None:
            raise over

    def waiting(self, number: int) -> Coroutine[Any, Any, Any]:
        """A coroutine of the program, as one that awaits it over there."""

        async def wait() -> Any:
            return self.ask("wait", self._remotes.setdefault(number, self._remote(self, number)))

        return wait()

    def _request(self, what: str, args: tuple[Any, ...], kwargs: dict[str, Any], in_place: bool = False) -> Any:
        self.requests += 1
        request = {"do": what, "with": self._encoded([list(args), kwargs]), "in_place": in_place}
        reply = self._exchange(request)
        changed = reply.pop("changed", None) if in_place else None
        value = self._value(reply, ends_loops=what == "next")
        if changed is not None:
            update([list(args), kwargs], self._decoded(changed))
        return value

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        def talk() -> dict[str, Any]:
            self._channel.send(request)
            return self._channel.receive()

        with self._one_at_a_time:
            self.go_on()
            reply: dict[str, Any] = self._noted(talk)
            return reply

    def _value(self, reply: dict[str, Any], ends_loops: bool = False) -> Any:
        if reply.keys() == {"raised", "arguments", "has"}:
            raise self._noted(lambda: self._exception(reply, ends_loops))
        if reply.keys() != {"value"}:
            self._over = wire.Closed(f"a reply that was not asked for: {', '.join(reply)}"[:200])
            raise self._over
        return self._decoded(reply["value"])

    def _encoded(self, value: Any) -> Any:
        return self._noted(lambda: wire.encode(value, self._refer))

    def _decoded(self, form: Any) -> Any:
        return self._noted(lambda: wire.decode(form, self._resolve))

    def _noted(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except wire.Closed as error:
            self._over = error
            raise

    def _resolve(self, kind: str, value: Any) -> Any:
        if kind == "error":
            return self._error(value)
        if kind == "coroutine":
            return self.waiting(int(value))
        return self._remotes.setdefault(int(value), self._remote(self, int(value)))

    def _refer(self, value: Any) -> dict[str, Any]:
        if type(value) is self._remote:
            return {"kind": "object", "value": self._number(value)}
        named = wire.named(value)
        if named is None:
            raise Broken(f"a test gives the program a {type(value).__name__}, and only values of built-in types can be given")
        return {"kind": "named", "value": named}

    def _error(self, form: Any) -> type[Exception]:
        """The class of an exception: a built-in one by its name, one of the program as a class of the same bases."""
        if isinstance(form, str):
            kind = getattr(builtins, form, None)
            return kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError
        number, name, bases = form
        if number not in self._errors:
            own = {"__str__": lambda error: str(vars(error).get("__str__", error.args))}
            self._errors[number] = type(str(name), tuple(self._error(base) for base in bases), own)
        return self._errors[number]

    def _exception(self, reply: dict[str, Any], ends_loops: bool) -> Exception:
        try:
            kind, told = self._error(reply["raised"]), RuntimeError(f"{reply['raised']}: {reply['arguments']}")
        except (TypeError, ValueError) as error:
            raise wire.Closed(f"no exception: {error!r}") from error
        # where a value is expected, as in `all(map(f, cases))`, it would end the test's own loop in silence; PEP 479 is of the same mind
        if issubclass(kind, (StopIteration, StopAsyncIteration)) and not (ends_loops and kind is StopIteration):
            return told
        try:
            raised = kind(*self._decoded(reply["arguments"]))
            raised.__dict__.update(self._decoded(reply["has"]))
        except Exception:
            # a kind that wants other arguments
            return told
        return raised


def _fit(size: int, items: int) -> None:
    if size != items:
        raise RuntimeError(f"an object of length {size} with {items} items")


def update(old: Any, new: Any) -> None:
    """Carry what a call changed in place back into the arguments, list by list."""
    if isinstance(old, list) and isinstance(new, list):
        for mine, theirs in zip(old, new, strict=False):
            update(mine, theirs)
        if old != new:
            old[:] = new
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            update(old[key], new[key])
        if old != new:
            old.clear()
            old.update(new)
    elif isinstance(old, set) and isinstance(new, set):
        old.clear()
        old.update(new)
    elif isinstance(old, bytearray) and isinstance(new, bytearray):
        old[:] = new
