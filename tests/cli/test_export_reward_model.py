"""`lightrl export` writes a reward model from its checkpoint as the run itself does at its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

TINY = {"class_path": "TinyPolicy", "init_args": {"hidden": 16, "layers": 1}}
LORA = {"class_path": "LoraPolicy", "init_args": {"r": 2, "base": TINY}}


@pytest.mark.parametrize("policy", [TINY, LORA], ids=["whole", "lora"])
def test_a_checkpoint_and_the_run_give_the_same_reward_model(
    policy: dict[str, Any], lightrl: Callable[..., Any], write: Callable[..., Path], config: dict[str, Any]
) -> None:
    export = {"class_path": "lightrl.callbacks.export_policy.ExportRewardModel", "init_args": {"folder": "at_the_end"}}
    config.pop("rollouts")
    config["trainer"] |= {"max_steps": 2, "val_check_interval": 2, "check_val_every_n_epoch": None, "callbacks": [export]}
    config["model"] = {"class_path": "RewardModeling", "init_args": {"policy": policy, "batch_size": 8, "optimizer": {"lr": 0.02}}}
    config["data"]["train"]["class_path"] = "SortedPairs"
    write("train.yaml", config)
    answer = lightrl("fit", "--config", "train.yaml")
    assert answer.status == 0, answer.err
    words = ("export", "--config", "train.yaml", "--ckpt_path", "last", "--out")
    answer = lightrl(*words, "later")
    assert answer.status == 0, answer.err
    assert "Reward model written to later" in answer.out
    expected, found = load_file("at_the_end/model.safetensors"), load_file("later/model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    card = Path("later/README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["pipeline_tag"] == "text-classification"
    for line in ("A reward model trained with RewardModeling", "AutoModelForSequenceClassification.from_pretrained", "| `val/accuracy` |"):
        assert line in card
    answer = lightrl(*words, "alone", "--adapter_only")
    assert answer.status == 2
    assert "written as one" in answer.err
