"""Contract tests: a plugin's whole test file can be two lines.

from lightrl_workshop import contract_tests
test_contract = contract_tests("lightrl_dapo")
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lightrl.kinds import KINDS
from lightrl.registry import registered_classes
from lightrl_workshop.checks.check import BrokenContract, Check, Make
from lightrl_workshop.contracts import checks_of

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

Arguments = Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
"""Arguments to build a class with, or a function that makes them in a temporary folder."""


@dataclass(frozen=True)
class Case:
    """One check of one class."""

    kind: str
    """Title of the kind."""
    cls: type[Any]
    """The registered class."""
    check: Check
    """One line of its contract."""
    arguments: Arguments
    """The arguments that it is built with; those that are not named have their defaults."""
    exception: str | None = None
    """Why the class says that it does not keep the check; None: it says no such thing."""

    def __str__(self) -> str:
        return f"{self.cls.__name__}: {self.check.title}"

    def run(self, folder: Path) -> None:
        """Run the check on the class, with an empty folder for arguments; a BrokenContract names class, check and the smallest example."""
        __tracebackhide__ = True
        try:
            self.check.run(self.maker(folder))
        except BrokenContract as broken:
            raise BrokenContract(f"{self._broken()}:\n{broken}") from None
        except (Exception, SystemExit) as error:
            raise BrokenContract(f"{self._broken()}:\nit raised {type(error).__name__}: {error}") from error

    def maker(self, folder: Path) -> Make[Any]:
        """Builds fresh instances with the case's arguments."""
        given = self.arguments(folder) if callable(self.arguments) else self.arguments
        given = {**tiny_run(self.kind, self.cls), **given}
        missing = [name for name in required_arguments(self.cls) if name not in given]
        if missing:
            raise BrokenContract(
                f"{self.cls.__name__} cannot be built without {', '.join(missing)}: "
                f"contract_tests(..., arguments={{{self.cls.__name__!r}: {{{missing[0]!r}: ...}}}})"
            )
        return lambda: self.cls(**copy.deepcopy(dict(given)))

    def _broken(self) -> str:
        return f"{self.cls.__name__} ({self.kind}) breaks its contract: '{self.check.title}'"


def contract_cases(plugin: str | ModuleType, arguments: Mapping[str, Arguments] | None = None) -> list[Case]:
    """Every check of every class that a plugin's hooks register.

    Args:
        plugin: the module of the entry point, or its import path.
        arguments: by class name, for classes with required arguments, or to try others than the defaults.

    Raises:
        ValueError: the plugin registers nothing, or `arguments` names a class that it does not register.
    """
    import importlib

    module = importlib.import_module(plugin) if isinstance(plugin, str) else plugin
    given = dict(arguments or {})
    found = [(kind, cls) for kind, classes in registered_classes(module).items() for cls in classes]
    if not found:
        raise ValueError(f"the hooks of {module.__name__} register nothing: has it a function like lightrl_advantages with @hookimpl?")
    unknown = sorted(set(given) - {cls.__name__ for _, cls in found})
    if unknown:
        raise ValueError(f"arguments names {unknown}, but {module.__name__} registers {', '.join(sorted(c.__name__ for _, c in found))}")
    return [case for kind, cls in found for case in class_cases(kind, cls, given.get(cls.__name__, {}))]


def class_cases(kind: str, cls: type[Any], arguments: Arguments | None = None) -> list[Case]:
    """Every check of one class of a kind, a key of `KINDS`, built with these arguments.

    Raises:
        ValueError: the class is of another kind, or states an exception from what is no check of its contract.
    """
    if not issubclass(cls, KINDS[kind].base_class):
        raise ValueError(f"{cls.__name__} is no {kind}: it is no subclass of {KINDS[kind].base}")
    exceptions: Mapping[str, str] = getattr(cls, "exceptions", {})
    titles = [check.title for check in checks_of(kind)]
    if unknown := sorted(set(exceptions) - set(titles)):
        listed = "\n".join(f"  {title}" for title in titles)
        raise ValueError(f"{cls.__name__}.exceptions names {unknown}, but these are the checks of its kind, {kind}:\n{listed}")
    return [Case(kind, cls, check, arguments or {}, exceptions.get(check.title)) for check in checks_of(kind)]


def contract_tests(plugin: str | ModuleType, arguments: Mapping[str, Arguments] | None = None) -> Callable[..., None]:
    """A pytest test over every check of every class that a plugin registers; assign it to a name that begins with `test_`.

    A check from which a class states an exception may fail: pytest counts it as `xfailed`, with the reason, or as `xpassed`. That it
    passes is no error, since chance or another device may decide it.

    Args:
        plugin: the module of the entry point, or its import path.
        arguments: by class name, for classes with required arguments: their values, or a function of a temporary folder that
            gives them.
    """
    import pytest

    cases = contract_cases(plugin, arguments)

    @pytest.mark.parametrize("case", marked(cases), ids=str)
    def test_contract(case: Case, tmp_path: Path) -> None:
        __tracebackhide__ = True
        case.run(tmp_path)

    return test_contract


def marked(cases: Sequence[Case]) -> list[ParameterSet]:
    """Cases as parameters of a pytest test; those from which a class states an exception may fail."""
    import pytest

    marks = [() if c.exception is None else pytest.mark.xfail(reason=c.exception, raises=BrokenContract, strict=False) for c in cases]
    return [pytest.param(case, marks=mark) for case, mark in zip(cases, marks, strict=True)]


def tiny_run(kind: str, cls: type[Any]) -> dict[str, Any]:
    """Arguments that modules need and have no defaults for; none for other kinds."""
    if kind != "module":
        return {}
    from lightrl import ChosenLikelihood, GroupRelative, TinyPolicy

    tiny = {"policy": TinyPolicy(hidden=8, layers=1, heads=2), "algorithm": GroupRelative(), "objective": ChosenLikelihood()}
    tiny["rewards"] = {"small": "lightrl_workshop.toy.small_digits"}
    takes = inspect.signature(cls).parameters
    return {name: value for name, value in tiny.items() if name in takes}


def required_arguments(cls: type[Any]) -> list[str]:
    """The names of arguments without a default."""
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(cls).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in fixed]
