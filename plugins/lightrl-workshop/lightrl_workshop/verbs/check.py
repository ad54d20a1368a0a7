"""`lightrl plugins check NAME`: hooks, names, contract and configs of a plugin, or the classes of a file, checked in a fresh process."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lightrl.config import ConfigError, closest, parse_yaml, read_config, report
from lightrl.kinds import KINDS
from lightrl.registry import PluginRecord, UnknownName, path_of, record_named, registry

if TYPE_CHECKING:
    from lightrl_workshop.verbs.contract_run import Finding, Given

OPTION = "--arguments"
"""The option with arguments for the plugins' classes."""


def main(arguments: str, only: str, *names: str) -> int:
    """Check plugins: 0 if all is well, 1 if something is wrong, 2 if the request is; the work of a fresh process.

    Args:
        arguments: of the plugins' classes: YAML, or a file with it.
        only: the class that is checked alone, or `contract`; empty: all is checked.
        *names: of plugins or distributions, their folders, or files.
    """
    try:
        given = read_arguments(arguments)
        records = {name: record_of(name) for name in names}
        refuse_unknown([*records.values()], given, only)
    except UnknownName as error:
        return report(ConfigError("", str(error)))
    except ConfigError as error:
        return report(error)
    return max(_check(record, name, given, only) for name, record in records.items())


def _check(record: PluginRecord, name: str, given: Given, only: str) -> int:
    package = f"{record.distribution} {record.version}, {record.api}, " if record.api else ""
    sys.stdout.write(f"{record.name}: {package}{record.location or record.module}\n")
    wrong = _print_findings(_loading(record)) or _print_findings([*_names(record), *_contract(record, name, given, only)])
    more = f" See: lightrl plugins show {record.name}" if record.api else ""
    sys.stdout.write(f"{wrong} wrong.{more}\n" if wrong else "All is well.\n")
    sys.stdout.flush()
    return 1 if wrong else 0


def _loading(record: PluginRecord) -> list[Finding]:
    if record.error:
        where = f"\n{record.traceback.strip()}" if record.traceback else ""
        return [("wrong", f"it does not load: {record.error}{where}")]
    registered = [f"{kind} {cls.__name__}" for kind, classes in record.classes.items() for cls in classes]
    if not registered and not record.configs:
        none = "it registers nothing: decorate a function such as lightrl_advantages with lightrl.hookimpl"
        bare = "no class is in it that a config can name, such as one derived from lightrl.Advantage; functions are for lightrl reward test"
        return [("wrong", none if record.api else bare)]
    valid = "it loads, its hooks are valid, and it registers" if record.api else "it can be imported, and has"
    return [("ok", f"{valid} {', '.join(registered) or 'configs alone'}")]


def _names(record: PluginRecord) -> list[Finding]:
    """A finding for each name that another plugin registers too, so that a config would have to say which is meant."""
    if not record.api:
        return []
    others = [r for r in registry().records if r is not record and not r.error]
    taken = [
        f"{kind} {cls.__name__} is registered by {r.distribution} too: rename it, or a config has to say which is meant"
        for kind, classes in record.classes.items()
        for cls in classes
        for r in others
        if cls.__name__ in {other.__name__ for other in r.classes.get(kind, [])}
    ]
    taken += [
        f"config {path.stem} is brought by {r.distribution} too: rename the file, or --config has to say which is meant"
        for path in record.configs
        for r in others
        if path.stem in {other.stem for other in r.configs}
    ]
    return [("wrong", text) for text in taken] or [("ok", "no other plugin registers one of its names")]


def _contract(record: PluginRecord, name: str, given: Given, only: str) -> list[Finding]:
    from lightrl_workshop.verbs.contract_run import run_contract

    sys.stderr.write("running its contract tests, and a step of each config ...\n")
    return run_contract(record, name, given, only)


def _print_findings(findings: list[Finding]) -> int:
    """Print them, and count the faults."""
    for sign, text in findings:
        first, *rest = text.splitlines()
        sys.stdout.write(f"  {sign:<5}  {first}\n")
        sys.stdout.writelines(f"         {line}\n" for line in rest)
    return sum(sign == "wrong" for sign, _ in findings)


def record_of(text: str) -> PluginRecord:
    """The plugin with this name or in this folder, or the classes that are written in this file; an error if there is none."""
    file = Path(text).expanduser().resolve()
    if file.suffix != ".py":
        return record_named(name_of(text))
    if not file.is_file():
        raise ConfigError("", f"there is no file {text!r}.", "Type: lightrl plugins check my_file.py")
    record = PluginRecord(file.stem, file.name, "", api="", module=file.stem, location=str(file))
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    try:
        module = importlib.import_module(file.stem)
        if Path(module.__file__ or "").resolve() != file:
            raise ImportError(f"another module is named {file.stem}, {module.__file__}: rename the file")
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == file.stem and not inspect.isabstract(cls) and (kind := _kind_of(cls)):
                record.loaded.setdefault(kind, []).append(cls)
    except (Exception, SystemExit) as error:
        record.fail(error)
    record.paths = {kind: [path_of(cls) for cls in classes] for kind, classes in record.loaded.items()}
    return record


def _kind_of(cls: type[Any]) -> str:
    # whoever derives from a class has imported its module, and some modules take seconds
    there = {title: kind for title, kind in KINDS.items() if kind.base.partition(":")[0] in sys.modules}
    return next((title for title, kind in there.items() if issubclass(cls, kind.base_class)), "")


def name_of(text: str) -> str:
    """The distribution of the project in this folder, or a ConfigError if it names none; if it is no such folder, the text itself."""
    file = Path(text) / "pyproject.toml"
    if not file.is_file():
        return text
    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ConfigError(str(file), f"it does not say which package this is: {error}.", "Expected: [project] with a name.") from error


def read_arguments(text: str) -> Given:
    """Read the option, YAML or a file with it; a ConfigError if it is no mapping of class names to arguments."""
    try:
        value = read_config(text) if Path(text).suffix in (".yaml", ".yml") else parse_yaml(text)
        shown = json.dumps(value)
    except (yaml.YAMLError, TypeError) as error:
        raise ConfigError(OPTION, f"bad YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(value, dict) or not all(isinstance(arguments, dict) for arguments in value.values()):
        raise ConfigError(OPTION, f"expected {{Class: {{argument: value}}}}, got {shown}.", "Type for example: '{MyPart: {length: 9}}'")
    return value


def refuse_unknown(records: list[PluginRecord], given: Given, only: str = "") -> None:
    """Refuse, with a ConfigError, a class that is not checked, and arguments that it does not take."""
    from lightrl_workshop.verbs.contract_run import CONTRACT, choice_of

    checked = {cls.__name__: (kind, cls) for r in records for kind, classes in r.classes.items() for cls in classes}
    if only not in ("", CONTRACT, *checked) and not any(record.error for record in records):
        raise ConfigError("--only", f"no class {only!r} is checked.{closest(only, checked)} There are: {', '.join(checked)}.")
    for name, arguments in given.items():
        if name not in checked:
            raise ConfigError(OPTION, f"no class {name!r} is checked.{closest(name, checked)} There are: {', '.join(checked)}.")
        choice_of(*checked[name], arguments)
