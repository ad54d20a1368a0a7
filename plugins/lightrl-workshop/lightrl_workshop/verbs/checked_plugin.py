"""The tests of `lightrl plugins check`: every check of every class of one plugin, and a step of each of its configs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lightrl.config import Builder
from lightrl_workshop.checks.check import check_documentation
from lightrl_workshop.contract_tests import Case, class_cases, marked, required_arguments, tiny_run
from lightrl_workshop.verbs.check import CONTRACT, Given, choice_of, record_of
from lightrl_workshop.verbs.config_step import PLACES, one_step, steps_of_class
from lightrl_workshop.verbs.contract_run import ARGUMENTS, ONLY, PLUGIN

RECORD = record_of(os.environ[PLUGIN])
GIVEN: Given = json.loads(os.environ[ARGUMENTS])
ALONE = os.environ[ONLY]
CLASSES = [(kind, cls) for kind, classes in RECORD.classes.items() for cls in classes if ALONE in ("", CONTRACT, cls.__name__)]


def _lacking(kind: str, cls: type[Any]) -> list[str]:
    there = {*GIVEN.get(cls.__name__, {}), *tiny_run(kind, cls)}
    return [name for name in required_arguments(cls) if name not in there]


def _cases(kind: str, cls: type[Any]) -> list[Case]:
    given = GIVEN.get(cls.__name__, {})
    choice = choice_of(kind, cls, given)
    return class_cases(kind, cls, {name: Builder().value(choice.value(name), choice.takes[name].slot, name) for name in given})


CASES = [case for kind, cls in CLASSES if not _lacking(kind, cls) for case in _cases(kind, cls)]


@pytest.mark.parametrize("case", marked(CASES), ids=str)
def test_contract_check(case: Case, tmp_path: Path) -> None:
    """A class passes a check of its contract."""
    __tracebackhide__ = True
    case.run(tmp_path)


@pytest.mark.parametrize(("kind", "cls"), [(kind, cls) for kind, cls in CLASSES if _lacking(kind, cls)], ids=str)
def test_can_be_built(kind: str, cls: type[Any]) -> None:
    """A class with required arguments is documented, and is checked only if it is given them."""
    __tracebackhide__ = True
    check_documentation(cls)
    example = f"{{{cls.__name__}: {{{', '.join(f'{name}: ...' for name in _lacking(kind, cls))}}}}}"
    pytest.fail(
        f"{cls.__name__} was not checked, since it has required arguments. Type: lightrl plugins check {os.environ[PLUGIN]} "
        f"--arguments '{example}'",
        pytrace=False,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "cls"), [(kind, cls) for kind, cls in CLASSES if kind in PLACES and ALONE != CONTRACT and not _lacking(kind, cls)], ids=str
)
def test_class_in_a_config(kind: str, cls: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of which a run has one takes a step, in each way in which a config has it."""
    __tracebackhide__ = True
    monkeypatch.chdir(tmp_path)
    try:
        name = cls.__name__ if RECORD.api else f"{cls.__module__}.{cls.__qualname__}"
        made = steps_of_class(kind, _cases(kind, cls)[0].maker(tmp_path), name, GIVEN.get(cls.__name__, {}))
    except Exception as error:
        pytest.fail(f"{cls.__name__} ({kind}) can be built in Python, and a config with it takes no step:\n{error}", pytrace=False)
    if idle := [way for way, steps in made.items() if steps == 0]:
        pytest.fail(f"{cls.__name__} ({kind}) in a config, {idle[0]}: it ran and made no optimizer step", pytrace=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("config", [] if ALONE else RECORD.configs, ids=lambda path: path.stem)
def test_config(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config takes a step."""
    __tracebackhide__ = True
    monkeypatch.chdir(tmp_path)
    try:
        steps = one_step(config, {cls for _, cls in CLASSES})
    except Exception as error:
        pytest.fail(f"config {config.stem}: it does not take a step: {error}", pytrace=False)
    if steps == 0:
        pytest.fail(f"config {config.stem}: it ran and made no optimizer step", pytrace=False)
