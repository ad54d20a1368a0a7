"""Fixtures of training: rows packed, and rows one beside the other."""

from __future__ import annotations

import pytest


@pytest.fixture
def plain_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model packs its rows."""
    monkeypatch.setattr("lightrl.policy.policy.longest_packed", lambda model: 0)


@pytest.fixture(params=["packed rows", "plain rows"])
def rows(request: pytest.FixtureRequest) -> None:
    """The test runs with rows packed where the model can, and with rows one beside the other."""
    if request.param == "plain rows":
        request.getfixturevalue("plain_rows")
