"""A clone has the name of the package, so a script beside it must not import the clone's folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.thorough
def test_a_script_beside_an_editable_clone_imports_the_package(tmp_path: Path, new_environment: Any) -> None:
    clone = tmp_path / "lightrl"
    clone.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "lightrl", clone / "lightrl", ignore=shutil.ignore_patterns("__pycache__"))
    made = new_environment(tmp_path / "venv", False)
    made.pip("install", "--no-build-isolation", "--editable", str(clone))
    (tmp_path / "script.py").write_text("import lightrl\nprint(lightrl.__file__, lightrl.PolicyOptimization.__name__)\n")
    done = made.run(str(tmp_path / "script.py"), cwd=tmp_path)
    assert done.stdout.split() == [str(clone / "lightrl" / "__init__.py"), "PolicyOptimization"], done.stderr
