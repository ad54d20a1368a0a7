"""A policy's folder with its weights in several files, of which one is not as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lightrl import PretrainedPolicy, TinyPolicy
from lightrl.parts.value_model import ValueModel
from lightrl.policy.reward_network import RewardNetwork


def sharded(folder: Path) -> Path:
    """A policy's folder with its weights in two files."""
    TinyPolicy(hidden=16, layers=1).build().save(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in files.items():
        save_file({name: tensors[name] for name in held}, folder / file, metadata={"format": "pt"})
    places = {name: file for file, held in files.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def test_shards_are_read(tmp_path: Path) -> None:
    there, whole = PretrainedPolicy(str(sharded(tmp_path / "policy"))).build(), TinyPolicy(hidden=16, layers=1).build()
    assert all(torch.equal(mine, own) for mine, own in zip(there.parameters(), whole.parameters(), strict=True))


WORDS = {
    "missing": ".*model-00002-of-00002.safetensors",
    "cut": "a file of its weights is damaged",
    "empty": "a file of its weights is damaged",
    "another model's": "its weights are not those of the model in its config.json",
    "a weight less": r"its files have no model\.",
}


@pytest.mark.parametrize("damage", WORDS)
def test_a_shard_that_is_not_there_or_damaged_is_named(tmp_path: Path, damage: str) -> None:
    folder = sharded(tmp_path / "policy")
    shard = folder / "model-00002-of-00002.safetensors"
    if damage == "missing":
        shard.unlink()
    elif damage == "a weight less":
        save_file(dict(list(load_file(shard).items())[1:]), shard, metadata={"format": "pt"})
    elif damage == "another model's":
        save_file({name: tensor[..., :1].contiguous() for name, tensor in load_file(shard).items()}, shard, metadata={"format": "pt"})
    else:
        shard.write_bytes(shard.read_bytes()[: 50 if damage == "cut" else 0])
    for build in (PretrainedPolicy(str(folder)).build, PretrainedPolicy(str(folder)).build_lazy):
        with pytest.raises(ValueError, match=f"^the policy '{folder}' cannot be loaded: {WORDS[damage]}"):
            build()


def test_a_folder_without_a_tokenizer_says_how_to_get_one(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "policy")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ValueError, match=r"^the tokenizer of the policy .*no tokenizer\.json .*save_pretrained"):
        PretrainedPolicy(str(folder)).build()


def test_a_critic_from_a_reward_model_without_its_head_is_refused(tmp_path: Path) -> None:
    policy = TinyPolicy(hidden=16, layers=1).build()
    RewardNetwork(policy).save(tmp_path / "reward")
    tensors = load_file(tmp_path / "reward" / "model.safetensors")
    del tensors["score.weight"]
    save_file(tensors, tmp_path / "reward" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"ValueModel\.path: .* its files have no score\.weight"):
        ValueModel(str(tmp_path / "reward")).build(policy)
