"""The table of kinds, and that everything which follows from a kind agrees with it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import lightrl
from lightrl import hookspecs
from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.declaration import slots_of
from lightrl.arguments import arguments_of
from lightrl.kinds import KINDS, Kind

EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
SLOT = "model.algorithm."
HOLDERS = {
    "model": [lightrl.PolicyOptimization, lightrl.PreferenceOptimization],
    "data": [lightrl.PromptData],
    "algorithm": [lightrl.Algorithm],
    "kl": [lightrl.KLPenalty],
}
"""The classes that take the last word of a place as an argument, by the word before it."""
OF_LIGHTNING = ("model", "trainer.callbacks")
"""Places of modules and callbacks, which are no parts: see test_extensions.py."""


def test_hooks_stand_on_their_page_in_the_order_of_the_table() -> None:
    hooks = [name for name, found in vars(hookspecs).items() if inspect.isfunction(found) and name.startswith("lightrl_")]
    assert hooks == [kind.hook for kind in KINDS.values()]


@EVERY_KIND
def test_the_hook_says_what_the_table_says(kind: Kind) -> None:
    hook = getattr(hookspecs, kind.hook)
    assert inspect.getdoc(hook) == kind.description
    assert hook() == []


@EVERY_KIND
def test_what_a_class_derives_from_is_public(kind: Kind) -> None:
    if not kind.base_is_ours:
        assert kind.base_class.__module__.startswith("lightning.")
        return
    assert getattr(lightrl, kind.base_name) is kind.base_class
    assert all(issubclass(getattr(lightrl, name), kind.base_class) for name in kind.derive_from)
    assert {kind.base_name, *kind.derive_from} <= set(lightrl.__all__)


def test_the_slots_of_an_algorithm_are_those_of_the_table() -> None:
    slots = {p.removeprefix(SLOT): kind.base_class for kind in KINDS.values() for p in kind.places if p.startswith(SLOT)}
    assert {slot: base for slot, base in slots.items() if "." not in slot} == slots_of(Algorithm)


@EVERY_KIND
def test_a_config_can_name_one_at_each_of_its_places(kind: Kind) -> None:
    for place in [place for place in kind.places if place not in OF_LIGHTNING]:
        holder, name = place.removesuffix(".NAME").split(".")[-2:]
        takes: list[Any] = [arguments_of(cls) for cls in HOLDERS[holder]]
        assert kind.title in {arguments[name].slot.kind for arguments in takes if name in arguments}, place


def test_titles_hooks_and_classes_are_unique() -> None:
    for values in ([k.title for k in KINDS.values()], [k.hook for k in KINDS.values()], [k.base for k in KINDS.values()]):
        assert len(set(values)) == len(values)
