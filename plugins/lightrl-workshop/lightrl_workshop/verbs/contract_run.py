"""The checks of every class of one plugin, and steps of its classes and configs; what they print is not shown."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lightrl.config import Builder, Choice, Merger, Slot
from lightrl.kinds import KINDS
from lightrl.registry import PluginRecord
from lightrl_workshop.checks.check import BrokenContract, check_documentation
from lightrl_workshop.contract_tests import Case, class_cases, required_arguments, tiny_run
from lightrl_workshop.verbs.config_step import PLACES, one_step, steps_of_class

Given = Mapping[str, Mapping[str, object]]
"""By class name, the values of arguments by name."""
Finding = tuple[str, str]
"""A line of the answer: `ok`, `wrong`, or `but` of a check that the class says it does not keep; and what passed, or the fault."""
CONTRACT = "contract"
"""The word after `--only` that leaves out the steps."""
PASSED = ("checks of its contracts pass", "of its classes take a step from a config", "of its configs take a step on a CPU")
"""What is counted."""

_Folder = partial(tempfile.TemporaryDirectory, ignore_cleanup_errors=True)


def run_contract(record: PluginRecord, name: str, given: Given, only: str) -> list[Finding]:
    """Run the checks and the steps of a plugin: how many passed, then stated exceptions, then faults.

    Args:
        record: of the plugin, or of a file.
        name: by which it was asked for, for the words that ask for it again.
        given: arguments of its classes.
        only: the class that is checked alone, or `CONTRACT`; empty: all is checked.
    """
    checked, in_config, stepped = list[Finding](), list[Finding](), list[Finding]()
    pairs = [(kind, cls) for kind, classes in record.classes.items() for cls in classes if only in ("", CONTRACT, cls.__name__)]
    with _silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, cls in pairs:
            arguments = given.get(cls.__name__, {})
            try:
                cases = _cases(name, kind, cls, arguments)
            except Exception as error:
                checked.append(("wrong", str(error) or type(error).__name__))
                continue
            checked += map(_of_case, cases)
            if kind in PLACES and only != CONTRACT:
                in_config.append(_of_class(kind, cls, cases[0], arguments, named=bool(record.api)))
        for config in [] if only else record.configs:
            stepped.append(_of_config(config, {cls for _, cls in pairs}))
    found = (checked, in_config, stepped)
    counts = [(sum(sign == "ok" for sign, _ in findings), text) for findings, text in zip(found, PASSED, strict=True)]
    others = sorted((one for findings in found for one in findings if one[0] != "ok"), key=lambda one: one[0])
    return [*(("ok", f"{count} {text}") for count, text in counts if count), *others]


def choice_of(kind: str, cls: type[Any], arguments: Mapping[str, object]) -> Choice:
    """A class of a kind with these arguments; a ConfigError if it does not take them."""
    base = KINDS[kind].base_class
    choice = Choice(cls, Slot("part", base, base, kind))
    merger = Merger()
    merger.arguments(choice, dict(arguments), cls.__name__, "--arguments")
    merger.problems.check()
    return choice


def _cases(plugin: str, kind: str, cls: type[Any], given: Mapping[str, object]) -> list[Case]:
    """Every check of a class; an error of a class that lacks required arguments, whose documentation alone is checked."""
    there = {*given, *tiny_run(kind, cls)}
    if lacking := [name for name in required_arguments(cls) if name not in there]:
        check_documentation(cls)
        example = f"{{{cls.__name__}: {{{', '.join(f'{name}: ...' for name in lacking)}}}}}"
        problem = f"{cls.__name__} was not checked, since it has required arguments."
        raise BrokenContract(f"{problem} Type: lightrl plugins check {plugin} --arguments '{example}'")
    choice = choice_of(kind, cls, given)
    return class_cases(kind, cls, {name: Builder().value(choice.value(name), choice.takes[name].slot, name) for name in given})


def _of_case(case: Case) -> Finding:
    try:
        with _Folder() as folder:
            case.run(Path(folder))
    except BrokenContract as broken:
        return ("wrong", str(broken)) if case.exception is None else ("but", f"{case}, a stated exception: {case.exception}")
    if case.exception is None:
        return "ok", str(case)
    return "but", f"{case}, a stated exception: {case.exception}\nit passes here: remove the exception if it always does"


def _of_class(kind: str, cls: type[Any], case: Case, given: Mapping[str, object], named: bool) -> Finding:
    """A step with a class of which a run has one, in each way in which a config has it."""
    name = cls.__name__ if named else f"{cls.__module__}.{cls.__qualname__}"
    try:
        with _Folder() as folder, contextlib.chdir(folder):
            made = steps_of_class(kind, case.maker(Path(folder)), name, given)
    except (Exception, SystemExit) as error:
        return "wrong", f"{cls.__name__} ({kind}) can be built in Python, and a config with it takes no step:\n{error}"
    idle = [way for way, steps in made.items() if steps == 0]
    return ("wrong", f"{cls.__name__} ({kind}) in a config, {idle[0]}: it ran and made no optimizer step") if idle else ("ok", name)


def _of_config(config: Path, kept: set[type[Any]]) -> Finding:
    try:
        with _Folder() as folder, contextlib.chdir(folder):
            steps = one_step(config, kept)
    except (Exception, SystemExit) as error:
        return "wrong", f"config {config.stem}: it does not take a step: {error}"
    return ("ok", config.stem) if steps else ("wrong", f"config {config.stem}: it ran and made no optimizer step")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Within, nothing is printed, not by libraries nor by the processes that are started either."""
    kept = {stream: os.dup(stream.fileno()) for stream in (sys.stdout, sys.stderr)}
    with Path(os.devnull).open("w") as nowhere:
        for stream in kept:
            stream.flush()
            os.dup2(nowhere.fileno(), stream.fileno())
    try:
        yield
    finally:
        for stream, before in kept.items():
            stream.flush()
            os.dup2(before, stream.fileno())
            os.close(before)
