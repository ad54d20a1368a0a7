"""Nothing takes more than two seconds in silence."""

from __future__ import annotations

import time

import pytest

from lightrl.workers.waiting import waiting


def test_a_long_wait_says_what_it_is_and_a_short_one_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("reading the data"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("lightrl.workers.waiting.PATIENCE_S", 0.0)
    with waiting("reading the data"):
        time.sleep(0.05)
    assert capsys.readouterr().err == "reading the data ...\nreading the data: 0 s\n"
