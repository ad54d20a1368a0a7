"""The candidate's side: runs the program under test and does what the examiner asks. Nothing here is trusted by anyone.

    python candidate.py serve FD LIMITS     answers calls over the socket FD
    python candidate.py script FD LIMITS    takes the program from FD and becomes it, with its standard input and output
"""

import json
import socket
import sys
import types

import sandbox_wire as wire


class Objects:
    """The program's objects that the examiner holds by number."""

    def __init__(self):
        self._kept, self._numbers = [], {}

    def refer(self, value):
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return {"kind": "object", "value": self._numbers[id(value)]}

    def resolve(self, number):
        return self._kept[number]


def main():
    mode, descriptor, limits = sys.argv[1:]
    wire.limit(json.loads(limits))
    channel = wire.Channel(socket.socket(fileno=int(descriptor)))
    channel.send({"ready": True})
    task = channel.receive()
    sys.path.pop(0)
    sys.argv = ["program.py"]
    if mode == "script":
        become(task, channel)
    else:
        serve(task, channel)


def become(task, channel):
    channel._connection.close()
    module = fresh_module("__main__")
    exec(compiled(task), vars(module))


def serve(task, channel):
    module, objects = fresh_module("program"), Objects()
    channel.send(answer(lambda: exec(compiled(task), vars(module)), objects))
    while True:
        request = channel.receive()
        try:
            reply = answer(lambda request=request: perform(request, module, objects), objects)
            if request.get("in_place") and "raised" not in reply:
                reply["arguments"] = wire.encode(request["given"], objects.refer)
            channel.send(reply)
        except (wire.Unsendable, RecursionError) as error:
            channel.send({"raised": "ValueError", "arguments": [str(error)]})


def fresh_module(name):
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module


def compiled(task):
    """The first way of joining the given code and the completion that is Python."""
    *others, last = task["sources"]
    for source in others:
        try:
            return compile(source, "program.py", "exec")
        except SyntaxError:
            continue
    return compile(last, "program.py", "exec")


def answer(work, objects):
    try:
        return {"value": wire.encode(work(), objects.refer)}
    except Exception as error:
        return {"raised": type(error).__name__, "arguments": [str(argument)[:200] for argument in error.args]}


def perform(request, module, objects):
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
