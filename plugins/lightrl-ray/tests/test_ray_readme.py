"""The engines of the README can be built."""

import re
from pathlib import Path
from typing import Any

import yaml
from lightrl_ray import RayEngine

from lightrl import TransformersEngine

README = (Path(__file__).parent.parent / "README.md").read_text()


def built(arguments: dict[str, Any]) -> RayEngine:
    engine = arguments.pop("engine")
    assert engine["class_path"] == TransformersEngine.__name__
    return RayEngine(TransformersEngine(**engine["init_args"]), **arguments)


def test_the_engines_of_the_readme_can_be_built() -> None:
    chosen = [yaml.safe_load(block)["model"]["engine"] for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)]
    assert {engine["class_path"] for engine in chosen} == {RayEngine.__name__}
    here, there = (built(engine["init_args"]) for engine in chosen)
    assert (here.actors, here.address, here.resources) == (2, None, {"CPU": 1.0})
    assert (there.actors, there.address, there.resources) == (16, "auto", {"CPU": 4, "GPU": 1})
