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
from sandbox_remote import Broken, Session


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


def imports(trees: list[ast.Module]) -> ast.Module:
    """The imports of the tests: one that fails must not leave its name to the program."""
    return ast.Module([node for tree in trees for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])


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
    prepare(given_code(task["setup"]), names, "the code before the program")
    prepare(compile(imports(trees), "test.py", "exec"), names, "what the tests import")
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
        passed = names.run(code)
        session.go_on()
        if counts:
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
