"""`lightrl explain NAME`: an algorithm, slot by slot with formula and source; a part; a kind of part; or any public name."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import textwrap
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lightrl.import_path import ImportPathError, imported

if TYPE_CHECKING:
    from rich.console import Console

    from lightrl.config.describe.choice import Choice
    from lightrl.kinds import Kind

WIDE = 150
"""In a terminal with at least as many columns, arguments, formula and source stand side by side."""


class FieldLine(NamedTuple):
    """A field of a class, as its source has it."""

    name: str
    annotation: str
    default: str
    """As written; empty if there is none."""
    about: str
    """The text under the field."""

    def __str__(self) -> str:
        return f"{self.name}: {self.annotation}{f' = {self.default}' if self.default else ''}"


def fields_of(cls: type) -> list[FieldLine]:
    """The public fields that the body of a class declares, without those that it inherits."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):
        return []
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    found = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id.startswith("_"):
            continue
        said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        default = ast.unparse(node.value) if node.value is not None else ""
        about = inspect.cleandoc(said) if isinstance(said, str) else ""
        found.append(FieldLine(node.target.id, ast.unparse(node.annotation), default, about))
    return found


def all_fields_of(cls: type) -> list[FieldLine]:
    """The fields of a class and of the classes of lightrl that it inherits from, those of the bases first."""
    found: dict[str, FieldLine] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0].startswith("lightrl"):
            found |= {field.name: field for field in fields_of(base)}
    return list(found.values())


def to_write(cls: type) -> list[str]:
    """The methods that a subclass must write, with their arguments, in the order of the source."""
    names: frozenset[str] = getattr(cls, "__abstractmethods__", frozenset())
    ordered = [name for base in reversed(cls.__mro__) for name in vars(base) if name in names]
    return [f"{name}{signature_text(getattr(cls, name))}" for name in dict.fromkeys(ordered)]


class _Bare(str):
    """A text that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def signature_text(member: object) -> str:
    """The arguments of a function as its source has them; empty for anything else."""
    if not inspect.isfunction(member):
        return ""
    signature = inspect.signature(member)

    def bare(value: object) -> object:
        return _Bare(value) if isinstance(value, str) else value

    parameters = [
        parameter.replace(
            annotation=bare(parameter.annotation),
            default=_Bare(parameter.default.__name__) if inspect.isroutine(parameter.default) else parameter.default,
        )
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=bare(signature.return_annotation)))


def explain(words: list[str]) -> int:
    """Carry out `lightrl explain`."""
    parser = argparse.ArgumentParser(prog="lightrl explain", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="an algorithm or a part by its name in configs, or a kind of part")
    options = parser.parse_args(words)
    sys.path.append(str(Path.cwd()))
    from rich.console import Console

    from lightrl.config.describe.algorithms import algorithm_named, kind_named, part_named
    from lightrl.config.describe.documentation import print_class
    from lightrl.config.read.refusals import ConfigError
    from lightrl.registry.classes import closest, registry

    console = Console(markup=False, highlight=False)
    if (alone := part_named(options.name)) is not None:
        print_class(console, *alone)
        return 0
    if (kind := kind_named(options.name)) is not None:
        _print_kind(console, kind)
        return 0
    try:
        chosen = algorithm_named(options.name)
    except ConfigError as error:
        # looked for last, since it loads every callback
        if (public := public_named(options.name)) is None:
            if (alike := closest(options.name, (name for _, name in registry().places))) in str(error):
                raise
            raise ConfigError("", f"nothing is named {options.name!r}.{alike} See: lightrl plugins list") from error
        print_public(console, public)
        if inspect.isclass(public):
            _print_fields(console, public)
        return 0
    _print_algorithm(console, chosen)
    return 0


def _print_fields(console: Console, cls: type) -> None:
    for field in all_fields_of(cls):
        console.print(f"  {field}")
        if field.about:
            console.print(textwrap.indent(field.about, "      "))


def _print_algorithm(console: Console, algorithm: Choice) -> None:
    from lightrl.config.describe.algorithms import distribution_of, rows
    from lightrl.config.describe.documentation import documentation, folding_table, print_body

    about = documentation(algorithm.cls)
    rest = ("arguments", "formula", "source") if console.width >= WIDE else ("arguments, formula, source",)
    table = folding_table("slot", "part", *rest, show_lines=True)
    table.columns[1].no_wrap = True
    for slot, part, *about_part in rows(algorithm):
        table.add_row(slot, part, *(about_part if console.width >= WIDE else ["\n".join(filter(None, about_part))]))
    console.print(f"{algorithm.cls.__name__} ({distribution_of(algorithm.cls)}): {about.summary}")
    print_body(console, about)
    console.print()
    console.print(table)
    console.print(f"\nChange a part: lightrl fit --config FILE --model.algorithm {algorithm.cls.__name__} --model.algorithm.SLOT NAME")


def _print_kind(console: Console, kind: Kind) -> None:
    from rich.table import Table

    from lightrl.config.describe.documentation import documentation
    from lightrl.registry.classes import registry

    table = Table(kind.title, "from", "what it is", title_justify="left", show_lines=True)
    for distribution, cls in registry().of_kind(kind.title):
        table.add_row(cls.__name__, distribution, documentation(cls).summary)
    places = f"In a config: {', '.join(kind.places)}. " if kind.places else ""
    console.print(f"{kind.title}: {kind.description}\n{places}Hook: {kind.hook}.\n")
    console.print(table)
    base = kind.base_class
    written, fields = to_write(base), fields_of(base) if kind.base_is_ours else []
    if written:
        console.print(f"\nTo be written in a subclass of {kind.base_name}:")
        for method in written:
            about = (inspect.getdoc(getattr(base, method.partition("(")[0])) or "").partition("\n")[0]
            console.print(f"  {method}  {about}")
    if fields:
        console.print(f"\nFields of {kind.base_name}:")
        _print_fields(console, base)
    console.print(f"\nOne in full: lightrl explain NAME. One of your own: lightrl plugins new my-idea --kind {kind.slug}")


def public_named(name: str) -> Any:
    """The thing that an import path or a name in `__all__` of a package means, the latter in any case of letters; None: nothing."""
    from lightrl.registry.classes import registry

    if "." in name:
        with suppress(ImportPathError):
            return imported(name)
    # a package that brings verbs alone has them in a module of its own, and public names under its own name
    known = [(r.module.partition(".")[0], r.distribution.replace("-", "_")) for r in registry().records if not r.error]
    packages = dict.fromkeys(name for names in known for name in names if find_spec(name) is not None)
    public = [(module, one) for module in map(import_module, packages) for one in getattr(module, "__all__", ())]
    alike = [(module, one) for module, one in public if one.lower() == name.lower()]
    chosen = next((pair for pair in alike if pair[1] == name), alike[0] if alike else None)
    return None if chosen is None else getattr(*chosen)


def print_public(console: Console, thing: object) -> None:
    """Print signature and documentation, and what a class has to offer, a line each."""
    name, module = getattr(thing, "__name__", repr(thing)), getattr(thing, "__module__", "lightrl")
    console.print(f"{name} ({module})\n\n{inspect.getdoc(thing) or ''}")
    if not inspect.isclass(thing):
        if callable(thing):
            console.print(f"\n{name}{inspect.signature(thing)}")
        return
    made = vars(thing).get("__init__")
    console.print(f"\n{name}{signature_text(made)}" if made is not None else "", end="\n" if made is not None else "")
    said = inspect.getdoc(made)
    if said and not said.startswith("Initialize self."):
        console.print(f"\n{said}")
    for key, value in inspect.getmembers(thing):
        function = value.fget if isinstance(value, property) else value
        if key.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("lightrl"):
            continue
        summary = (inspect.getdoc(value) or "").partition("\n")[0]
        mark = "  to be written: " if key in getattr(thing, "__abstractmethods__", ()) else "  "
        console.print(f"{mark}{key}{inspect.signature(value) if inspect.isfunction(value) else ''}  {summary}")
