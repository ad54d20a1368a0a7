"""The tests as code: their asserts say that they were passed, and what cannot be asked of a program elsewhere is refused."""

import ast
import builtins
import dis
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeGuard

from sandbox_session import Broken

PASSED = "an assert passed"
"""The name under which asserts report; no program or test can write it."""
FAILED = ~0
"""Reported where an assert that always fails is reached; ~n where the assert n is reached, and n where it has passed."""
TYPE_OF = "the type of"
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.With, ast.AsyncWith)
NOTES = (ast.Assert, ast.Assign, ast.AugAssign)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SHARED = frozenset({
    "redirect_stdout", "redirect_stderr", "mock", "patch", "tempfile", "environ", "putenv", "chdir", "inspect", "tracemalloc", "settrace",
    "setprofile", "getrefcount", "exit", "_exit", "abort",
})  # fmt: skip
"""Names of modules and functions that act on the process that they are called in; the program is in another one."""


@dataclass(frozen=True)
class Step:
    """A piece of the tests that runs by itself."""

    code: CodeType
    counts: bool
    """It is a test; else it prepares some."""
    needed: frozenset[int] = frozenset()
    """Numbers of the asserts that it must pass: those that no branch leaves out."""

    def names(self) -> set[str]:
        """The names in it, those of attributes too."""
        return {name for code in (self.code, *_nested(self.code)) for name in code.co_names}

    def asked_for(self) -> set[str]:
        """The names that it reads and has not made itself."""
        steps = [step for code in (self.code, *_nested(self.code)) for step in dis.get_instructions(code)]
        mine, read_first = assigned(self.code)
        return {step.argval for step in steps if step.opname in ("LOAD_NAME", "LOAD_GLOBAL")} - {PASSED, TYPE_OF} - (mine - read_first)


def parsed(given: str | list[str]) -> list[ast.Module]:
    """The tests as trees: one each if they are a list."""
    try:
        trees = [ast.parse(test) for test in (given if isinstance(given, list) else [given])]
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Broken(f"the tests are no Python: {error}") from error
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {alias.asname or alias.name for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
    for node in nodes:
        _refuse_shared(node, imported)
    return trees


def steps(given: str | list[str], trees: list[ast.Module], entry: str | None) -> list[Step]:
    """The tests in order, with what prepares them."""
    counted = [_Counted().visit(tree) for tree in trees]
    functions = [node for tree in counted for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    bodies = {node.name: node.body for node in functions if [other.name for other in functions].count(node.name) == 1}
    if isinstance(given, list):
        tests, own = [_step(tree.body, True, bodies) for tree in counted], set(dir(builtins)) - set(re.findall(r"\w+", entry or ""))
        for text, tree, test in zip(given, counted, tests, strict=True):
            if not _numbers(tree) or not test.asked_for() - own:
                hint = "a program's function that is called as one of Python needs an entry_point"
                raise Broken(f"a test has no assert about the program: {text[:80]!r}; {hint}")
        return tests
    (tree,) = counted
    check = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
    if not _numbers(tree):
        raise Broken("the tests have no assert about the program")
    if check is not None:
        if not entry:
            raise Broken("the tests define check(candidate), but there is no entry_point that says what the candidate is")
        return [_step(tree.body, False, {}), _step(ast.parse("check(candidate)").body, True, {**bodies, "check": check.body})]
    asserting = {node.name for node in tree.body if isinstance(node, DEFINITIONS) and _numbers(node)}
    found = [_step([node], _is_test(node, asserting), bodies) for node in tree.body]
    if not any(step.counts for step in found):
        raise Broken("the tests have no assert outside of functions that no statement calls")
    return found


def assigned(code: CodeType) -> tuple[set[str], set[str]]:
    """The names that a module's code makes its own, also in its functions and comprehensions, and those that it reads before."""
    mine: set[str] = set()
    read_first: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            mine.add(step.argval)
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in mine:
            read_first.add(step.argval)
    inside = (step for inner in _nested(code) for step in dis.get_instructions(inner))
    return mine | {step.argval for step in inside if step.opname == "STORE_GLOBAL"}, read_first & mine


def modules_named(trees: list[ast.Module]) -> dict[str, set[str]]:
    """Modules of the standard library that the tests may use as such, `math` of `math.isclose`, with the attributes that they use."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in sys.stdlib_module_names:
                found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _nested(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _nested(inner)


class _Counted(ast.NodeTransformer):
    """Behind each assert goes a call that reports it; `type(x)` also knows the objects of the program.

    An assert that fails fails its test even if the test catches it, unless the handler asserts or notes something.
    A test that expects an exception has an assert that always fails where none was raised: reaching it fails the test, and reaching the
    handler of the exception passes it.
    """

    def __init__(self) -> None:
        self._number = 0
        self._caught = False

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        if _always_fails(node):
            return _together(self._reporting(FAILED, node), node)
        if _says_nothing(node.test):
            return node
        passed = self._reporting(None, node)
        reached = [] if self._caught else [self._reporting(~self._number, node)]
        return _together(*reached, node, passed)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return _together(self._reporting(FAILED, node), node) if _always_fails(node) else node

    def visit_Try(self, node: ast.Try) -> Any:
        expects = any(_always_fails(inner) for part in (*node.body, *node.orelse) for inner in ast.walk(part))
        handled = [inner for handler in node.handlers for inner in ast.walk(handler)]
        before, self._caught = self._caught, self._caught or any(isinstance(inner, NOTES) for inner in handled)
        self.generic_visit(node)
        self._caught = before
        for handler in node.handlers if expects else ():
            handler.body.insert(0, self._reporting(None, handler))
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1 and not node.keywords:
            node.func.id = TYPE_OF
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Call(ast.copy_location(ast.Name(TYPE_OF, ast.Load()), node), [node.value], []), node)
        return node

    def _reporting(self, number: int | None, place: ast.stmt | ast.ExceptHandler) -> ast.stmt:
        if number is None:
            number = self._number = self._number + 1
        report = ast.Expr(ast.Call(ast.Name(PASSED, ast.Load()), [ast.Constant(number)], []))
        return ast.fix_missing_locations(ast.copy_location(report, place))


def _together(*body: ast.stmt) -> ast.stmt:
    """One statement of several, so that each statement with an assert stays one test."""
    return ast.fix_missing_locations(ast.copy_location(ast.If(ast.Constant(True), [*body], []), body[-1]))


def _always_fails(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(kind, ast.Name) and kind.id == "AssertionError"
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and not node.test.value


def _says_nothing(test: ast.expr) -> bool:
    """Whether an assert passes whatever the program does: `True`, `1 + 1 == 2`, `(f(2) == 4, "a tuple")`, `f(2) == 4 or True`."""
    if isinstance(test, ast.BoolOp):
        return (any if isinstance(test.op, ast.Or) else all)(map(_says_nothing, test.values))
    if isinstance(test, (ast.Constant, ast.Tuple, ast.List, ast.Set)):
        return bool(test.value if isinstance(test, ast.Constant) else test.elts)
    return not any(isinstance(inner, ast.Name) for inner in ast.walk(test))


def _step(body: list[ast.stmt], counts: bool, bodies: dict[str, list[ast.stmt]]) -> Step:
    needed = frozenset(_always(body, bodies) if counts else ())
    return Step(compile(ast.Module(body, []), "test.py", "exec"), counts, needed)


def _is_test(node: ast.stmt, asserting: set[str]) -> bool:
    if isinstance(node, DEFINITIONS):
        return False
    return bool(_numbers(node)) or any(isinstance(inner, ast.Name) and inner.id in asserting for inner in ast.walk(node))


def _report(node: ast.AST) -> int | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == PASSED and isinstance(node.args[0], ast.Constant):
        return int(str(ast.literal_eval(node.args[0])))
    return None


def _numbers(node: ast.AST) -> list[int]:
    """The numbers of all asserts in a tree."""
    return [number for inner in ast.walk(node) if (number := _report(inner)) is not None]


def _always(body: list[ast.stmt], bodies: dict[str, list[ast.stmt]]) -> Iterator[int]:
    """The numbers of the asserts that run whatever is true: those of loops are among them, those of branches are not."""
    for node in body:
        if (called := _called(node)) in bodies:
            yield from _always(bodies[called], {**bodies, called: []})
        elif isinstance(node, ast.Expr) and (number := _report(node.value) or FAILED) > 0:
            yield number
        elif isinstance(node, LOOPS) or (isinstance(node, ast.Try) and not node.handlers) or _is_true(node):
            yield from _always([*node.body, *getattr(node, "finalbody", [])], bodies)


def _is_true(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("True", "__name__ == '__main__'")


def _called(node: ast.stmt) -> str:
    """The name of what a statement calls with nothing or the candidate."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and all(ast.unparse(given) == "candidate" for given in (*call.args, *call.keywords)):
        return ast.unparse(call.func).rpartition(".")[2]
    return ""


def _refuse_shared(node: ast.AST, imported: set[str]) -> None:
    base = node.value if isinstance(node, ast.Attribute) else None
    of = base.id if isinstance(base, ast.Name) and base.id in sys.stdlib_module_names else None
    if isinstance(node, ast.Name) and (node.id in ("open", "exit", "quit") or node.id in SHARED & imported):
        refused = node.id
    elif isinstance(node, ast.Attribute) and of is not None and (node.attr in SHARED or not isinstance(node.ctx, ast.Load)):
        refused = f"{of}.{node.attr}"
    else:
        return
    raise Broken(f"a test uses `{refused}`, which acts on the process of the tests, and the program is in another one")
