"""Benchmarks that are started at once share an environment."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_environment


def test_two_benchmarks_that_begin_at_once_install_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requirements, folder = tmp_path / "peer.txt", tmp_path / "out" / "peer"
    requirements.write_text("peer==1\n")
    asked: list[list[Any]] = []

    def run(command: list[Any], **_: object) -> None:
        asked.append(command)
        time.sleep(0.05)
        folder.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(peer_environment.subprocess, "run", run)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: peer_environment.make_environment(folder, requirements), range(4)))
    assert ["venv" in command for command in asked] == [True, False]
    assert (folder / ".installed").read_text() == "peer==1\n"
