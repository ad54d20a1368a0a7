"""The candidate's side: runs the program under test and does what the examiner asks. Nothing here is trusted by anyone.

python candidate.py serve FD LIMITS     answers calls over the socket FD
python candidate.py script FD LIMITS    takes the program from FD and becomes it, with its standard input and output
"""

import builtins
import functools
import json
import operator
import socket
import sys
import types
from collections.abc import Callable, KeysView
from typing import Any

import sandbox_wire as wire


class Objects:
    """The program's objects that the examiner holds by number."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def refer(self, value: Any) -> dict[str, Any]:
        """The form of an object on the wire."""
        name = value.__name__ if isinstance(value, type) else ""
        if name and getattr(builtins, name, None) is value:
            return {"kind": "type", "value": name}
        if isinstance(value, type) and issubclass(value, Exception):
            return {"kind": "error", "value": self.error(value)}
        kind = "coroutine" if isinstance(value, types.CoroutineType) else "object"
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return {"kind": kind, "value": self._numbers[id(value)]}

    def error(self, kind: type[BaseException]) -> Any:
        """A class of exceptions: its name, or number, name and bases of one that the program defines."""
        if getattr(builtins, kind.__name__, None) is kind:
            return kind.__name__
        if id(kind) not in self._numbers:
            self._numbers[id(kind)] = len(self._kept)
            self._kept.append(kind)
        bases = [self.error(base) for base in kind.__bases__ if issubclass(base, BaseException)]
        return [self._numbers[id(kind)], kind.__name__, bases]

    def resolve(self, kind: str, value: Any) -> Any:
        """The object of a number, or of a name in the standard library."""
        return wire.find(*value) if kind == "named" else self._kept[value]


def main() -> None:
    """Get ready, take the program, and go on as the mode says."""
    mode, descriptor, limits = sys.argv[1:]
    wire.limit(json.loads(limits))
    # a script's input and output are pipes
    wire.let_go("stderr", *(() if mode == "script" else ("stdin", "stdout")))
    connection = socket.socket(fileno=int(descriptor))
    channel = wire.Channel(connection)
    channel.send({"ready": True})
    task = channel.receive()
    sys.path.pop(0)
    sys.argv = ["program.py"]
    # what `site` would have added, which is left out
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    if mode == "script":
        connection.close()
        exec(compiled(task), vars(fresh_module("__main__")))
    else:
        serve(task, channel)


def serve(task: dict[str, Any], channel: wire.Channel) -> None:
    """Load the program and answer calls until the examiner is gone."""
    module, objects = fresh_module("program"), Objects()
    channel.send(answer(lambda: exec(compiled(task), vars(module)), objects))
    while True:
        with wire.deep():
            request = channel.receive()
        try:
            reply = answer(functools.partial(perform, request, module, objects), objects)
            with wire.deep():
                if request["in_place"] and "raised" not in reply:
                    reply["changed"] = wire.encode(request["given"], objects.refer)
                channel.send(reply)
        except (wire.UnsendableError, RecursionError) as error:
            channel.send(raised(ValueError(str(error)), objects))


def fresh_module(name: str) -> types.ModuleType:
    """An empty module, where dataclasses and the like look for it."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module


def compiled(task: dict[str, Any]) -> types.CodeType:
    """The first way of joining the given code and the completion that is Python."""
    *others, last = task["sources"]
    for source in others:
        try:
            return compile(source, "program.py", "exec")
        except SyntaxError:
            continue
    return compile(last, "program.py", "exec")


def answer(work: Callable[[], Any], objects: Objects) -> dict[str, Any]:
    """The result of a piece of work, or its exception, as a message."""
    try:
        value = work()
    except Exception as error:
        return raised(error, objects)
    try:
        with wire.deep():
            return {"value": wire.encode(value, objects.refer)}
    except Exception as error:
        return raised(error, objects)


def raised(error: Exception, objects: Objects) -> dict[str, Any]:
    """An exception as a message."""
    kind = objects.error(type(error))
    known = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
    try:
        own = [name for name in dir(error) if not name.startswith("__") and not hasattr(known, name)]
        has = {"__str__": str(error), **{name: getattr(error, name, None) for name in own}}
        return {"raised": kind, "arguments": wire.encode(list(error.args), objects.refer), "has": wire.encode(has, objects.refer)}
    except Exception:
        return {"raised": kind, "arguments": [str(argument)[:200] for argument in error.args], "has": wire.encode({}, objects.refer)}


def perform(request: dict[str, Any], module: types.ModuleType, objects: Objects) -> Any:
    """Do what one request asks."""
    what = request["do"]
    with wire.deep():
        args, kwargs = request["given"] = wire.decode(request["with"], objects.resolve)
    if what == "name":
        return eval(args[0], vars(module))
    return (ACTIONS.get(what) or getattr(builtins, what, None) or getattr(operator, what))(*args, **kwargs)


def plain(value: Any) -> Any:
    """The built-in value that an object is a kind of, or the object."""
    if isinstance(value, KeysView):
        return set(value)
    base = next((base for base in wire.PLAIN if isinstance(value, base)), None)
    return value if base is None else {str: str.__str__, int: int.__index__, float: float.__float__}.get(base, base)(value)


def is_of(value: Any, module: str, name: str) -> bool:
    """Whether an object is of a class of the standard library."""
    try:
        return module.split(".")[0] in sys.stdlib_module_names and isinstance(value, wire.find(module, name))
    except AttributeError:
        # the types of generators and the like say that they are built in
        return any((base.__module__, base.__qualname__) == (module, name) for base in type(value).__mro__)


def leave(manager: Any, told: Any) -> Any:
    """Leave a context, with the exception that a test raised there."""
    if told is None:
        return manager.__exit__(None, None, None)
    error = getattr(builtins, told[0], RuntimeError)(*told[1])
    return manager.__exit__(type(error), error, None)


ACTIONS: dict[str, Callable[..., Any]] = {
    "call": lambda called, *args, **kwargs: called(*args, **kwargs),
    "plain": plain,
    "has_own": lambda value, *names: any(hasattr(type(value), name) and not hasattr(object, name) for name in names),
    "is_kind_of_value": lambda kind: issubclass(kind, wire.PLAIN),
    "is_of": is_of,
    "wait": lambda coroutine: wire.find("asyncio", "run")(coroutine),
    "enter": lambda manager: type(manager).__enter__(manager),
    "leave": leave,
}

main()
