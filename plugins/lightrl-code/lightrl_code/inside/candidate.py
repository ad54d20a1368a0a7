"""The candidate's side: runs the program under test and does what the examiner asks. Nothing here is trusted by anyone.

python candidate.py serve FD LIMITS     answers calls over the socket FD
python candidate.py script FD LIMITS    takes the program from FD and becomes it, with its standard input and output
"""

import functools
import json
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

import sandbox_wire as wire


class Objects:
    """The program's objects that the examiner holds by number."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def refer(self, value: Any) -> dict[str, Any]:
        """The form of an object on the wire."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return {"kind": "object", "value": self._numbers[id(value)]}

    def resolve(self, number: int) -> Any:
        """The object of a number."""
        return self._kept[number]


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
    if mode == "script":
        become(task, connection)
    else:
        serve(task, channel)


def become(task: dict[str, Any], connection: socket.socket) -> None:
    """Run the program as a script."""
    connection.close()
    module = fresh_module("__main__")
    exec(compiled(task), vars(module))


def serve(task: dict[str, Any], channel: wire.Channel) -> None:
    """Load the program and answer calls until the examiner is gone."""
    module, objects = fresh_module("program"), Objects()
    channel.send(answer(lambda: exec(compiled(task), vars(module)), objects))
    while True:
        request = channel.receive()
        try:
            reply = answer(functools.partial(perform, request, module, objects), objects)
            if request.get("in_place") and "raised" not in reply:
                reply["changed"] = wire.encode(request["given"], objects.refer)
            channel.send(reply)
        except (wire.UnsendableError, RecursionError) as error:
            channel.send({"raised": "ValueError", "arguments": [str(error)]})


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
        return {"value": wire.encode(work(), objects.refer)}
    except Exception as error:
        return {"raised": type(error).__name__, "arguments": [str(argument)[:200] for argument in error.args]}


def perform(request: dict[str, Any], module: types.ModuleType, objects: Objects) -> Any:
    """Do what one request asks."""
    what = request["do"]
    if what == "name":
        return eval(request["name"], vars(module))
    target = objects.resolve(request["on"])
    if what == "get":
        return getattr(target, request["name"])
    args, kwargs = request["given"] = wire.decode(request["with"], objects.resolve)
    called = getattr(target, request["name"]) if what == "method" else target
    return called(*args, **kwargs)


main()
