"""Keys that no class takes, told from the sources of the classes that a config names, before anything slow is imported.

Nothing is executed. What sources do not say for sure is left to `config.merge`, which asks the classes themselves.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path

from lightrl import MODULE_OF
from lightrl.config.read.import_paths import search_working_folder
from lightrl.config.read.refusals import Problems, check_argument, check_key
from lightrl.config.read.settings import Request, Text, undotted
from lightrl.hookspecs import GROUP
from lightrl.import_path import is_import_path, spec_of
from lightrl.registry.known_packages import chosen_entries

SECTIONS = {"model": "PolicyOptimization", "data": "PromptData"}
"""The sections that hold parts, with their default classes."""
OF_TORCH = ("seed_everything", "float32_matmul_precision")
"""Keys beside `trainer` of settings of the whole process, whatever the verb."""
GIVEN_BY_US = {"self", "model", "datamodule", "dataloaders", "train_dataloaders", "val_dataloaders"}
"""Arguments of the Trainer's verbs that no config gives."""
KNOWN_DECORATORS = ("dataclass", "final", "_defaults_from_env_vars")
"""They leave the arguments of a class or a constructor as they are."""
Arguments = dict[str, tuple[str, ast.expr | None, str]]
"""By name: the module that states the argument, its default, and its type as written."""


@dataclass(frozen=True)
class ClassSource:
    """A class as a source has it."""

    module: str
    node: ast.ClassDef

    @property
    def lineage(self) -> list[ClassSource | None]:
        """Itself and its bases, in the order in which Python asks them; None for what cannot be read."""
        every: list[ClassSource | None] = [self]
        for base in self.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            if ast.unparse(plain) not in ("ABC", "Generic", "Protocol", "object"):
                found = class_of(self.module, plain)
                every += [None] if found is None else found.lineage
        return [one for number, one in enumerate(every) if one is None or one not in every[number + 1 :]]

    def method(self, name: str) -> ast.FunctionDef | None:
        """A method that the class itself writes."""
        return next((node for node in self.node.body if isinstance(node, ast.FunctionDef) and node.name == name), None)

    @functools.cached_property
    def arguments(self) -> Arguments | None:
        """None: sources do not say."""
        return _arguments(self.lineage)


def _arguments(lineage: list[ClassSource | None]) -> Arguments | None:
    for number, one in enumerate(lineage):
        if one is None or one.node.keywords or not _is_plain(one.node):
            return None
        hidden = (inner for node in one.node.body if isinstance(node, (ast.If, ast.Try, ast.Assign)) for inner in ast.walk(node))
        if any("__init__" in (getattr(inner, "name", ""), getattr(inner, "id", "")) for inner in hidden):
            return None
        if one.node.name == "Declared" or one.node.decorator_list:
            return _annotated(lineage)
        if (init := one.method("__init__")) is not None:
            return _of_constructor(one.module, init, lineage[number + 1 :])
    return {}


def _annotated(lineage: list[ClassSource | None]) -> Arguments | None:
    found: Arguments = {}
    for one in reversed(lineage):
        if one is None:
            return None
        for node in one.node.body:
            if isinstance(node, ast.AnnAssign) and not (written := ast.unparse(node.annotation)).startswith("ClassVar"):
                found[ast.unparse(node.target)] = one.module, node.value, written
            elif isinstance(node, ast.Assign) and (name := ast.unparse(node.targets[0])) in found:
                found[name] = one.module, node.value, found[name][2]
    return found


def _of_constructor(module: str, init: ast.FunctionDef, above: list[ClassSource | None]) -> Arguments | None:
    of = init.args
    # optimizers and schedules are given their first argument
    named = [*of.posonlyargs, *of.args, *of.kwonlyargs][2 if module.startswith("torch.optim.") else 1 :]
    defaults = [*[None] * len(named), *of.defaults, *of.kw_defaults][-len(named) :]
    own = {a.arg: (module, d, ast.unparse(a.annotation) if a.annotation else "") for a, d in zip(named, defaults, strict=False)}
    if of.vararg or not _is_plain(init) or of.kwarg is None:
        return None if of.vararg or not _is_plain(init) else own
    # what is handed on to the next constructor, and to nothing else, is what that takes
    nodes, rest = list(ast.walk(init)), _arguments(above)
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"]
    uses = sum(isinstance(node, ast.Name) and node.id == of.kwarg.arg for node in nodes)
    given = [keyword.arg for call in calls for keyword in call.keywords]
    if rest is None or len(calls) != 1 or uses != 1 or None not in given:
        return None
    return own | {name: rest[name] for name in list(rest)[len(calls[0].args) :] if name not in own and name not in given}


def _is_plain(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return all(ast.unparse(one).partition("(")[0] in KNOWN_DECORATORS for one in node.decorator_list)


def class_of(module: str, expression: ast.expr | None) -> ClassSource | None:
    """The class that an expression in a module names, or makes an object of."""
    while isinstance(expression, ast.Call):
        expression = expression.args[0] if ast.unparse(expression.func) == "partial" else expression.func
    if isinstance(expression, ast.Attribute):
        return class_in(ast.unparse(expression.value), expression.attr)
    return class_in(module, expression.id) if isinstance(expression, ast.Name) else None


@functools.cache
def class_in(module: str, name: str) -> ClassSource | None:
    """The class that a name means in a module."""
    module = MODULE_OF.get(name, module) if module == "lightrl" else module
    found = _names_in(module).get(name)
    if isinstance(found, ast.ClassDef):
        return ClassSource(module, found)
    return None if found is None or found == (module, name) else class_in(*found)


@functools.cache
def _names_in(module: str) -> dict[str, ast.ClassDef | tuple[str, str]]:
    """The classes that a module writes, and of names from other modules the module and the name there."""
    spec = spec_of(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return {}
    try:
        # the files of a user change while a notebook goes on
        body = _tree(spec.origin, Path(spec.origin).stat().st_mtime_ns)
    except (SyntaxError, ValueError, OSError):
        # the import says what is wrong
        return {}
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    found: dict[str, ast.ClassDef | tuple[str, str]] = {}
    for node in [*(inner for outer in body if isinstance(outer, (ast.If, ast.Try)) for inner in outer.body), *body]:
        if isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            found |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
        elif isinstance(node, ast.ClassDef) and node in body:
            found[node.name] = node
    return found


@functools.lru_cache(maxsize=256)
def _tree(file: str, changed_ns: int) -> list[ast.stmt]:
    """The statements of a source but for functions, and of methods only the constructor's: whole trees take much memory."""
    body = [node for node in ast.parse(Path(file).read_bytes()).body if not isinstance(node, ast.FunctionDef)]
    for inner in (inner for node in body if isinstance(node, ast.ClassDef) for inner in node.body):
        if isinstance(inner, ast.FunctionDef) and inner.name != "__init__":
            inner.body = []
    return body


@functools.cache
def _homes() -> list[str]:
    """The modules whose classes have short names."""
    return [*dict.fromkeys(entry.module for entry in chosen_entries() if entry.group == GROUP), "torch.optim", "lightrl"]


def class_named(name: str) -> ClassSource | None:
    """The class that a config means by a name; None: sources do not say, or say two."""
    if is_import_path(name):
        return class_in(*name.rpartition(".")[::2])
    found = {id(one.node): one for module in _homes() if (one := class_in(module, name)) is not None}
    return found.popitem()[1] if len(found) == 1 else None


class _Reader:
    """Reads settings one after another, and remembers the class of each slot."""

    def __init__(self) -> None:
        self.problems = Problems()
        self._chosen: dict[str, ClassSource | None] = {}

    def slot(self, key: str, value: object, default: ClassSource | None, source: str) -> None:
        """Read what is given for a slot with this default."""
        name, given = _split(value)
        if name is not None and key not in SECTIONS:
            chosen = class_named(name)
            if chosen != self._chosen.get(key, default):
                # what one class carries over to another is not known here
                self._chosen |= dict.fromkeys([below for below in self._chosen if below.startswith(f"{key}.")])
            self._chosen[key] = chosen
        cls = self._chosen.get(key, default)
        if cls is None or (takes := cls.arguments) is None or not isinstance(given, dict):
            return
        # a reward that is given a path is a function from then on
        arguments = {} if "path" in given and "path" not in takes else undotted(given, key)
        for name, value in arguments.items():
            with self.problems.collected(f"{key}.{name}"):
                check_argument(cls.node.name, name, takes, key, source)
                module, default_here, written = takes[name]
                if written.startswith(("dict[", "Mapping[")):
                    for one, of_one in value.items() if isinstance(value, dict) else ():
                        self.slot(f"{key}.{name}.{one}", of_one, None, source)
                else:
                    self.slot(f"{key}.{name}", value, class_of(module, default_here), source)


def _split(value: object) -> tuple[str | None, object]:
    """The class that a value names, None if it keeps the one in force, and the arguments."""
    if isinstance(value, dict):
        return (_split(value["class_path"])[0], value.get("init_args")) if "class_path" in value else (None, value.get("init_args", value))
    return value.text if isinstance(value, Text) else str(value), None


@functools.cache
def verb_keys(verb: str) -> tuple[str, ...]:
    """The top-level keys that Lightning takes for a verb."""
    trainer = class_in("lightning.pytorch.trainer.trainer", "Trainer")
    method = None if trainer is None else trainer.method(verb)
    return (*OF_TORCH, *(a.arg for a in (method.args.args if method else ()) if a.arg not in GIVEN_BY_US))


def refuse_unknown_keys(verb: str, request: Request) -> None:
    """Refuse keys that sources show to be unknown; the ConfigError names all of them."""
    search_working_folder(request)
    reader, trainer = _Reader(), class_in("lightning.pytorch.trainer.trainer", "Trainer")
    for setting in request.settings:
        for key, value in setting.content.items():
            with reader.problems.collected(str(key)):
                check_key(str(key), value, (*SECTIONS, "rollouts", "trainer", *verb_keys(verb)), setting.source)
                if key in SECTIONS:
                    reader.slot(str(key), value, _of_section(str(key), request), setting.source)
                for name in undotted(value, "trainer") if key == "trainer" and isinstance(value, dict) else ():
                    with reader.problems.collected(f"trainer.{name}"):
                        check_argument("the Trainer", name, (trainer and trainer.arguments) or [name], "trainer", setting.source)
    for read in (class_in, _names_in, _homes):
        read.cache_clear()
    reader.problems.check()


def _of_section(section: str, request: Request) -> ClassSource | None:
    """The class of a section, which holds for all settings; None if several are named."""
    given = [_split(setting.content[section])[0] for setting in request.settings if section in setting.content]
    names = {name for name in given if name is not None} or {SECTIONS[section]}
    return class_named(names.pop()) if len(names) == 1 else None
