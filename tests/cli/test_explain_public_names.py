"""`lightrl explain` finds every public name, so that the reference can be read without a site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightrl as package
from lightrl.cli.catalogue.explain import public_named


def test_every_public_name_is_found() -> None:
    assert {name for name in package.__all__ if public_named(name) is None} == set()
    assert public_named("NoSuchThing") is None


def test_it_prints_what_is_to_be_written(lightrl: Callable[..., Any]) -> None:
    said = lightrl("explain", "AsyncReward").out
    assert "AsyncReward (lightrl.parts.async_reward)" in said
    assert "to be written: " in said
    assert "every_rollouts" in lightrl("explain", "RunCheckpoints").out
