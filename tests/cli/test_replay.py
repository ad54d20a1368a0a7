"""`lightrl replay`: what a run learnt from a rollout, learnt once more, and compared with what another algorithm makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.registry.classes import registry

RECORDS = {"class_path": "RecordRollouts", "init_args": {"every": 2, "checkpoint": True}}
FEW = ("PPO", "DCPO")
"""One with a critic, and one whose advantage remembers earlier rollouts."""
REWARD = {"class_path": "Function", "init_args": {"path": "lightrl.testing.toy.small_digits", "runs": "inline"}}


@pytest.fixture
def run(lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]) -> Callable[..., Path]:
    """The folder of a run of three rollouts, of which the first and the third are recorded."""

    def run(algorithm: Any, **trainer: Any) -> Path:
        config["rollouts"] = 3
        config["model"] |= {
            "algorithm": algorithm,
            "rewards": {"small": REWARD},
            "optimizer": {"class_path": "AdamW", "init_args": {"lr": 0.01}},
        }
        config["trainer"] |= {"callbacks": [RECORDS], "enable_checkpointing": False} | trainer
        write("recorded.yaml", config)
        answer = lightrl("fit", "--config", "recorded.yaml")
        assert answer.status == 0, answer.err
        return Path("runs/recorded/version_0")

    return run


def algorithms() -> list[Any]:
    names = sorted({cls.__name__ for _, cls in registry().of_kind("algorithm")})
    return [pytest.param(name, marks=[] if name in FEW else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", algorithms())
@pytest.mark.filterwarnings("ignore")
def test_every_algorithm_finds_its_numbers_again_to_the_bit(name: str, run: Callable[..., Path], lightrl: Callable[..., Any]) -> None:
    folder = run({"class_path": name, "init_args": {"minibatches": 2}})
    answer = lightrl("replay", str(folder), "--algorithm", name)
    assert answer.status == 0, answer.out + answer.err
    assert re.search(r"Found again: all \d\d+ numbers that the run logged of learning are the same, to the bit", answer.out)
    cosines = re.findall(r"cosine: gradient.*│ (\S.*?) +│", answer.out)
    if name == "VAPO":
        # its critic learns alone at first
        assert cosines == ["no gradient"] * 2
        return
    # a first step in which no row differs from its group has none
    assert set(cosines) <= {"1.000000000000", "no gradient"}, answer.out
    assert cosines[1] == "1.000000000000", answer.out
