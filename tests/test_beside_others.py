"""lightrl-core fits into an environment with vLLM, and with TRL: recorded lines are held against ours; `make beside` asks a resolver.

Source: `requires_dist` of vLLM 0.33.0 and TRL 1.16.0 on PyPI, where lightrl-core names the package too, and of transformers.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
OTHERS = {
    "vllm": ["transformers<5.20.0,>=5.16.1", "tokenizers>=0.23.2", "safetensors>=0.6.2", "torch==2.13.0", "numpy", "tqdm", "pyyaml"],
    "trl": [
        "accelerate>=1.11.0", "datasets>=4.7.0", "jinja2", "numpy>=1.26.0", "pyarrow>=21.0.0", "pyyaml>=6.0.1", "torch>=2.6.0",
        "transformers>=4.56.2",
    ],
}  # fmt: skip
RELEASED = {
    "accelerate": "1.15.0", "datasets": "5.2.0", "jinja2": "3.1.6", "numpy": "2.3.5", "pyarrow": "26.0.1", "pyyaml": "6.0.3",
    "safetensors": "0.8.0", "tokenizers": "0.23.3", "torch": "2.13.0", "tqdm": "4.70.1", "transformers": "5.19.0",
}  # fmt: skip
"""A version of each that there is."""


def ours() -> dict[str, SpecifierSet]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(line) for line in project["dependencies"]]
    return {requirement.name: requirement.specifier for requirement in requirements}


@pytest.mark.parametrize("other", OTHERS)
def test_one_version_of_each_package_suits_both(other: str) -> None:
    mine = ours()
    theirs = {requirement.name: requirement.specifier for requirement in map(Requirement, OTHERS[other])}
    assert set(theirs) <= set(mine)
    refused = {name: str(mine[name] & theirs[name]) for name in theirs if RELEASED[name] not in (mine[name] & theirs[name])}
    assert refused == {}


def test_deepspeed_is_asked_for_on_linux_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    marker = next(r.marker for r in map(Requirement, project["dependencies"]) if r.name == "deepspeed")
    assert marker is not None
    assert [marker.evaluate({"sys_platform": name}) for name in ("linux", "darwin", "win32")] == [True, False, False]
