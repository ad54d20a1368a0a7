"""Tests the benchmark that trains under every precision."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path

from benchmarks.learning.precisions import ROWS, capitals


def test_rewards_of_the_capitals_are_named_where_they_are(tmp_path: Path) -> None:
    _, config = capitals(ROWS["bf16-true"], 0, argparse.Namespace(out=tmp_path, model=tmp_path, rollouts=1))
    for reward in config["model"]["rewards"].values():
        assert callable(pkgutil.resolve_name(reward["path"]))
