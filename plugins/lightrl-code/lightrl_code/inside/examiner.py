"""The examiner's side: runs the tests, in a sandbox of its own that the program under test cannot see into.

The program runs elsewhere. Here it is a `Remote`, whose calls send arguments over and bring back plain values, so the program
never meets an expected value, an assert statement or the pipe on which verdicts are written.

    python examiner.py CANDIDATE_FD VERDICT_FD LIMITS     takes the task from standard input
"""

import ast
import builtins
import importlib
import json
import os
import socket
import sys
from collections.abc import Callable
from types import CodeType
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
    """What a test may name: its own names, modules of the standard library, and the program's names that are allowed."""

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


def given_code(text: str) -> CodeType:
    """The code that stands before the program, as it stands or as the head of a function whose body is missing."""
    for source in (text, text + "\n    pass\n"):
        try:
            return compile(source, "setup.py", "exec")
        except SyntaxError as error:
            reason = error
    raise Broken(f"the code before the program is no Python: {reason}")


def parsed(task: dict[str, Any]) -> list[ast.Module]:
    """The tests as trees: one each if they are a list."""
    try:
        return [ast.parse(test) for test in (task["tests"] if isinstance(task["tests"], list) else [task["tests"]])]
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Broken(f"the tests are no Python: {error}") from error


def steps(task: dict[str, Any], trees: list[ast.Module]) -> list[tuple[CodeType, bool]]:
    """The tests as `(code, counts)` in order: those that count are tests, the others prepare them."""
    if isinstance(task["tests"], list):
        return [(compile(tree, "test.py", "exec"), True) for tree in trees]
    (tree,) = trees
    if any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body):
        if not task["entry_point"]:
            raise Broken("the tests define check(candidate), but there is no entry_point that says what the candidate is")
        return [(compile(tree, "test.py", "exec"), False), (compile("check(candidate)", "test.py", "exec"), True)]
    return [(compile(ast.Module([node], []), "test.py", "exec"), _asserts(node)) for node in tree.body]


def _asserts(node: ast.stmt) -> bool:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not isinstance(node, definitions) and any(isinstance(inner, ast.Assert) for inner in ast.walk(node))


def modules_named(trees: list[ast.Module]) -> set[str]:
    """Modules of the standard library that the tests use as such, `math` of `math.isclose`."""
    bases = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {base.id for base in bases if isinstance(base, ast.Name)} & sys.stdlib_module_names


def names_in(expression: str) -> set[str]:
    """The names in an expression, `Solution` of `Solution().add`."""
    return {node.id for node in ast.walk(ast.parse(expression, mode="eval")) if isinstance(node, ast.Name)}


def examine(task: dict[str, Any], channel: wire.Channel, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run every test, telling of each as it ends."""
    trees = parsed(task)
    todo, names, entry = steps(task, trees), Names(modules_named(trees)), task["entry_point"]
    total = sum(counts for _, counts in todo)
    if total == 0:
        raise Broken("the tests have no assert")
    prepare(given_code(task["setup"]), names)
    tell({"total": total})
    session = Session(channel, task["in_place"])
    session.start(task["sources"])
    tell({"started": True})
    session.loaded()
    names.open(session, names_in(entry) if entry else None)
    if entry:
        names["candidate"] = session.name(entry)
        if entry.isidentifier():
            names[entry] = names["candidate"]
    for code, counts in todo:
        passed = attempt(code, names)
        if counts:
            tell({"passed": passed})


def prepare(code: CodeType, names: Names) -> None:
    """Run trusted code before any of the program."""
    try:
        exec(code, names)
    except BaseException as error:
        raise Broken(f"the code before the program fails by itself: {error!r}") from error


def attempt(code: CodeType, names: Names) -> bool:
    """Run one test, or what prepares some: whether it went through."""
    try:
        exec(code, names)
    except (Broken, wire.Closed):
        raise
    except BaseException:
        return False
    return True


def main() -> None:
    """Take the task, examine, and write verdicts."""
    candidate, verdicts, limits = sys.argv[1:]
    wire.limit(json.loads(limits))
    wire.let_go("stdout", "stderr")

    def tell(message: dict[str, Any]) -> None:
        os.write(int(verdicts), json.dumps(message).encode() + b"\n")

    task = json.loads(sys.stdin.buffer.read())
    try:
        examine(task, wire.Channel(socket.socket(fileno=int(candidate))), tell)
    except Broken as error:
        tell({"broken": str(error)})
    except (Exception, wire.Closed) as error:
        # whatever the program makes fail here is its own failure: the tests that were not told of have not passed
        tell({"ended": f"{type(error).__name__}: {error}"[:300]})


main()
