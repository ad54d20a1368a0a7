"""A Python in a folder of its own, with the loader of its programs."""

import sys
from pathlib import Path

import pytest
from lightrl_code import sandbox


def test_programs_see_the_libraries_and_the_loader_of_a_python_that_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lib", "lib64"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert {str(tmp_path / "lib"), str(tmp_path / "lib64")} <= set(sandbox._readable())
