"""`lightrl explain` finds every public name, so that the reference can be read without a site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightrl_workshop
import pytest

import lightrl as package
from lightrl.cli.catalogue.explain import public_named


def test_every_public_name_is_found() -> None:
    assert {name for name in package.__all__ if public_named(name) is None} == set()
    assert {name for name in lightrl_workshop.__all__ if public_named(name) is None} == set()
    assert public_named("NoSuchThing") is None


def test_the_case_of_a_name_counts_where_two_differ_in_it(lightrl: Callable[..., Any]) -> None:
    assert public_named("moments") is package.moments
    assert public_named("Moments") is package.Moments
    assert public_named("MOMENTS") is not None
    assert "moments(values: " in lightrl("explain", "moments").out


def test_it_explains_a_class_in_a_file(lightrl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'from lightrl import GroupCentered\n\n\nclass Halved(GroupCentered):\n    """Half of what the group says."""\n'
    (tmp_path / "halves.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert "advantage Halved: Half of what the group says." in lightrl("explain", "halves.Halved").out
    assert lightrl("explain", "halves.Doubled").status == 2


def test_it_prints_how_a_class_is_made(lightrl: Callable[..., Any]) -> None:
    assert "current: PolicyOutput | None = None" in " ".join(lightrl("explain", "TensorLoss").out.split())


def test_it_prints_what_is_to_be_written(lightrl: Callable[..., Any]) -> None:
    said = lightrl("explain", "AsyncReward").out
    assert "AsyncReward (lightrl.parts.reward)" in said
    assert "to be written: " in said
    assert "every_rollouts" in lightrl("explain", "RunCheckpoints").out


def test_it_prints_the_fields_of_a_noun_and_of_a_kind(lightrl: Callable[..., Any]) -> None:
    noun = lightrl("explain", "Experience").out
    assert "response_mask: Tensor" in noun
    assert "values: Tensor | None = None" in noun
    kind = lightrl("explain", "advantage").out
    assert "To be written in a subclass of Advantage:\n  compute(self, experience: Experience) -> Advantages" in kind
    assert "needs_rewards: bool = True" in kind
