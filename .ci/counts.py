"""Counts what the type checker cannot see through, and what has grown too long; `make counts` prints it and fails above a limit.

python .ci/counts.py                # the table
python .ci/counts.py --where any    # one line for each place: asserts, ignores, any or casts
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "lightrl").rglob("*.py"))
ALL = [*CORE, *sorted(p for p in (ROOT / "plugins").rglob("*.py") if "tests" not in p.parts)]
LIMITS = {"asserts": 10, "ignores": 20, "any": 80, "casts": 0, "files over 300 lines": 0, "lines of the walk": 250}
"""The most of each that there may be; an entry of a checkout that is better than its limit lowers it."""
WALK = ROOT / "lightrl" / "training" / "online" / "policy_optimization.py"


def asserts(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines of assert statements."""
    return (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert))


def ignores(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines that silence the type checker."""
    return (i for i, line in enumerate(lines, 1) if "# type: ignore" in line)


def bare_any(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines of arguments whose type is `Any` and nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            rest = [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
            for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *rest]:
                if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Any":
                    yield argument.lineno


def casts(tree: ast.AST, lines: list[str]) -> Iterator[int]:
    """Lines that call `typing.cast`."""
    return (n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "cast")


COUNTED = {"asserts": asserts, "ignores": ignores, "any": bare_any, "casts": casts}


def places(name: str) -> list[str]:
    """Every place of one kind in `lightrl`, as `file:line`."""
    found = []
    for path in CORE:
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(ROOT)}:{line}" for line in COUNTED[name](ast.parse(text), text.splitlines())]
    return found


def main() -> int:
    """Print the table; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", choices=COUNTED, help="print each place of one kind")
    options = parser.parse_args()
    if options.where:
        sys.stdout.writelines(f"{place}\n" for place in places(options.where))
        return 0
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}
    numbers = {name: len(places(name)) for name in COUNTED}
    numbers |= {"files over 300 lines": sum(n > 300 for n in lengths.values()), "lines of the walk": lengths[WALK]}
    for name, number in numbers.items():
        sys.stdout.write(f"{name:<22}{number:>5}  at most {LIMITS[name]}{'' if number <= LIMITS[name] else '  TOO MANY'}\n")
    longest = max(lengths, key=lambda path: lengths[path])
    sys.stdout.write(f"{len(lengths)} files, {sum(lengths.values()):,} lines; longest {longest.relative_to(ROOT)}, {lengths[longest]}\n")
    return int(any(number > LIMITS[name] for name, number in numbers.items()))


if __name__ == "__main__":
    sys.exit(main())
