"""Counts what a reader meets and what the type checker cannot see through; `make counts` prints it and fails above a limit.

python .ci/counts.py                # the table
python .ci/counts.py --where any    # one line for each place: asserts, ignores, any or casts
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "lightrl").rglob("*.py"))
ALL = [*CORE, *sorted(p for p in (ROOT / "plugins").rglob("*.py") if "tests" not in p.parts)]
WALK = ROOT / "lightrl" / "training" / "online" / "policy_optimization.py"
CHAIN = (WALK, ROOT / "lightrl" / "training" / "policy_module.py")
"""The files of the classes that the module of online training is made of."""
LIMITS = {
    "lines of lightrl": 36_166,
    "lines of lightrl and plugins": 63_584,
    "files of lightrl": 296,
    "files of lightrl under 50 lines": 41,
    "files over 300 lines": 0,
    "files that the walk imports": 163,
    "members of the training module": 35,
    "arguments of a function in training/online": 5,
    "lines of the longest function": 73,
    "asserts": 0,
    "ignores": 14,
    "any": 46,
    "casts": 0,
}
"""The most of each that there may be; an entry of a checkout that is better than its limit lowers it."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def asserts(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines of assert statements."""
    return (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert))


def ignores(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines that silence the type checker."""
    return (i for i, line in enumerate(lines, 1) if "# type: ignore" in line)


def bare_any(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines of arguments whose type is `Any` and nothing else."""
    for function in functions(tree):
        for argument in arguments(function):
            if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Any":
                yield argument.lineno


def casts(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines that call `typing.cast`."""
    return (n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "cast")


COUNTED = {"asserts": asserts, "ignores": ignores, "any": bare_any, "casts": casts}


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function, methods and inner ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def arguments(function: Function) -> list[ast.arg]:
    """Every argument of a function."""
    rest = [a for a in (function.args.vararg, function.args.kwarg) if a is not None]
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs, *rest]


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def places(name: str) -> list[str]:
    """Every place of one kind in `lightrl`, as `file:line`."""
    found = []
    for path in CORE:
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{path.relative_to(ROOT)}:{line}" for line in COUNTED[name](parsed(path), lines)]
    return found


def imported(path: Path) -> set[Path]:
    """The files of lightrl that a file imports, in functions and for types too."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lightrl"):
            base = ROOT / (node.module or "").replace(".", "/")
            names = [base / name.name for name in node.names]
            found |= {file for one in (base, *names) for file in (one.with_suffix(".py"), one / "__init__.py") if file.is_file()}
    return found


def closure(path: Path) -> set[Path]:
    """The files of lightrl that are imported with a file, itself among them."""
    found, ahead = set[Path](), {path}
    while ahead:
        found |= ahead
        ahead = {file for one in ahead for file in imported(one)} - found
    return found


def members(paths: tuple[Path, ...]) -> set[str]:
    """The names that the classes of some files define: methods, and what they assign to `self`."""
    found = set()
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found |= {item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                found |= {node.attr} if node.value.id == "self" else set()
    return {name for name in found if not name.startswith("__")}


def numbers() -> dict[str, int]:
    """Everything that has a limit."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}
    online = [function for path in WALK.parent.glob("*.py") for function in functions(parsed(path))]
    every = [function for path in CORE for function in functions(parsed(path))]
    found = {
        "lines of lightrl": sum(lengths[path] for path in CORE),
        "lines of lightrl and plugins": sum(lengths.values()),
        "files of lightrl": len(CORE),
        "files of lightrl under 50 lines": sum(lengths[path] < 50 for path in CORE),
        "files over 300 lines": sum(n > 300 for n in lengths.values()),
        "files that the walk imports": len(closure(WALK)),
        "members of the training module": len(members(CHAIN)),
        "arguments of a function in training/online": max(
            len([a for a in arguments(f) if a.arg not in ("self", "cls")]) for f in online if f.name != "__init__"
        ),
        "lines of the longest function": max((f.end_lineno or f.lineno) - f.lineno + 1 for f in every),
    }
    return found | {name: len(places(name)) for name in COUNTED}


def main() -> int:
    """Print the table; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", choices=COUNTED, help="print each place of one kind")
    options = parser.parse_args()
    if options.where:
        sys.stdout.writelines(f"{place}\n" for place in places(options.where))
        return 0
    found = numbers()
    for name, number in found.items():
        sys.stdout.write(f"{name:<44}{number:>7,}  at most {LIMITS[name]:,}{'' if number <= LIMITS[name] else '  TOO MANY'}\n")
    lengths = sorted((f.end_lineno or f.lineno) - f.lineno + 1 for path in CORE for f in functions(parsed(path)))
    median = statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in CORE)
    sys.stdout.write(
        f"median lines of a file {median:.0f}; of a function {lengths[len(lengths) // 2]}, p90 {lengths[len(lengths) * 9 // 10]}\n"
    )
    return int(any(number > LIMITS[name] for name, number in found.items()))


if __name__ == "__main__":
    sys.exit(main())
