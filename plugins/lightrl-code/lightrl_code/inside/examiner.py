"""The examiner's side: runs the tests, in a sandbox of its own that the program under test cannot see into.

The program runs elsewhere. Here it is a `Remote`, whose calls send arguments over and bring back plain values, so the program
never meets an expected value, an assert statement or the pipe on which verdicts are written.

    python examiner.py CANDIDATE_FD VERDICT_FD LIMITS     takes the task from standard input
"""

import ast
import json
import os
import socket
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import sandbox_wire as wire
from sandbox_names import Names
from sandbox_remote import Remote, number_of
from sandbox_session import Broken, Session
from sandbox_tests import modules_named, parsed, steps


def given_code(text: str) -> CodeType:
    """The code before the program, as it is or as the head of a function whose body is missing."""
    last = text.rstrip().rpartition("\n")[2]
    lead = last[: len(last) - len(last.lstrip())]
    for source in (text, f"{text}\n{lead}pass\n", f"{text}\n{lead}    pass\n", f"{text}\n{lead}\tpass\n"):
        try:
            return compile(source, "setup.py", "exec")
        except SyntaxError as error:
            reason = error
    raise Broken(f"the code before the program is no Python: {reason}")


def examine(task: dict[str, Any], channel: wire.Channel, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run every test, telling of each as it ends."""
    trees, entry = parsed(task["tests"]), task["entry_point"]
    # one that fails must not leave its name to the program
    imports = [node for tree in trees for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names, imported = Names(modules_named(trees)), compile(ast.Module(imports, []), "test.py", "exec")
    todo = steps(task["tests"], trees, entry)
    prepare(given_code(task["setup"]), names, "the code before the program")
    prepare(imported, names, "what the tests import")
    tell({"total": sum(step.counts for step in todo)})
    session = Session(channel, task["in_place"], Remote, number_of)
    session.start(task["sources"])
    tell({"started": True})
    session.loaded()
    used = {node.id for node in ast.walk(ast.parse(entry or "0", mode="eval")) if isinstance(node, ast.Name)}
    names.open(session, used if entry else None)
    if entry:
        names["candidate"] = session.read("name", entry)
        if entry.isidentifier():
            names[entry] = names["candidate"]
    before = session.requests
    for step in todo:
        passed = names.run(step)
        session.go_on()
        if passed and step is todo[-1] and session.requests == before:
            raise Broken("the tests ask nothing of the program")
        if step.counts:
            tell({"passed": passed})
        elif not passed:
            # the tests that follow would meet half of what they need, such as an empty list to loop over
            return


def prepare(code: CodeType, names: Names, what: str) -> None:
    """Run trusted code before any of the program."""
    try:
        exec(code, names)
    except BaseException as error:
        raise Broken(f"{what} fails by itself: {error!r}") from error


def main() -> None:
    """Take the task, examine, and write verdicts."""
    candidate, verdicts, limits = sys.argv[1:]
    wire.limit(json.loads(limits))
    wire.let_go("stdout", "stderr")
    sys.setrecursionlimit(wire.DEEPEST)

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
