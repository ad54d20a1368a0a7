"""A critic with a trunk of its own, copied or from a folder."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

from lightrl.parts.value_model import ValueModel
from lightrl.policy.policy import Policy
from lightrl.policy.tiny import TinyPolicy

IDS = torch.arange(2, 12).view(2, 5)
MASK = torch.arange(5).expand(2, 5) > 0


def policy() -> Policy:
    return TinyPolicy(hidden=8, layers=1, heads=2).build()


def config(**changes: int) -> LlamaConfig:
    settings = {"vocab_size": 24, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaConfig(**{**settings, "pad_token_id": 0, "eos_token_id": 1, **changes})


def vocabulary() -> int:
    return policy().model.config.vocab_size


def test_it_starts_as_a_copy_and_shares_nothing() -> None:
    ours = policy()
    critic = ValueModel().build(ours)
    shared = {p.data_ptr() for p in ours.parameters()} & {p.data_ptr() for p in critic.parameters()}
    assert not shared
    for mine, theirs in zip(critic.trunk.parameters(), ours.model.base_model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    ours(IDS, MASK, critic=critic).values.sum().backward()
    assert all(p.grad is None for p in ours.parameters())
    assert all(p.grad is not None for p in critic.parameters())


def test_a_reward_model_brings_trunk_and_head(tmp_path: Path) -> None:
    judge = LlamaForSequenceClassification(config(vocab_size=vocabulary(), num_labels=1)).eval()
    judge.save_pretrained(tmp_path)
    critic = ValueModel(path=str(tmp_path)).build(policy())
    values = policy().values(IDS, MASK, critic)
    hidden = judge.model(input_ids=IDS).last_hidden_state
    expected = judge.score(hidden)[..., 0]
    # the value before token t is what the judge says of the tokens before it
    assert torch.allclose(values[:, 1:], expected[:, :-1], atol=1e-5)


@pytest.mark.parametrize("head", [True, False])
def test_a_causal_lm_brings_its_trunk_and_needs_no_head(tmp_path: Path, head: bool) -> None:
    model = LlamaForCausalLM(config(vocab_size=vocabulary()))
    (model if head else model.model).save_pretrained(tmp_path)
    critic = ValueModel(path=str(tmp_path)).build(policy())
    for mine, theirs in zip(critic.trunk.parameters(), model.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert critic.head.bias.item() == 0


def test_folders_that_cannot_be_a_critic_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json"):
        ValueModel(path=str(tmp_path)).build(policy())
    LlamaForCausalLM(config(vocab_size=99)).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match=rf"99 .* {vocabulary()}"):
        ValueModel(path=str(tmp_path / "other")).build(policy())
    LlamaForSequenceClassification(config(vocab_size=vocabulary(), num_labels=3)).save_pretrained(tmp_path / "three")
    with pytest.raises(ValueError, match="3 outputs"):
        ValueModel(path=str(tmp_path / "three")).build(policy())
