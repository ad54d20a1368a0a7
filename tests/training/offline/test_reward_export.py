"""The folder that reward modelling writes is read by the reward, the critic and transformers, with the scores of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_reward_model import RewardModel
from lightrl_workshop import quiet_trainer, random_rollout
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    CohereConfig,
    CohereForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from lightrl import LoraPolicy, Policy, PolicySource, PretrainedPolicy, Prompt, PromptData, PromptSource, RewardModeling, ValueModel
from lightrl.callbacks.export_policy import ExportRewardModel
from lightrl.policy.tiny import ALPHABET, character_tokenizer
from lightrl.types import JSON

SHAPE: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
IDS: dict[str, Any] = {"vocab_size": 24, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, **IDS, max_position_embeddings=64)),
    "qwen2, tied": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SHAPE, **IDS, num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True)
    ),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**IDS, n_embd=16, n_layer=2, n_head=2, n_positions=64)),
}
TURNS = (
    "{% for m in messages %}{{ (':' if m['role'] == 'user' else '>') + m['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}>{% endif %}"
)
"""A chat template of characters; every turn is closed by EOS."""


@dataclass
class Saved:
    """A policy's folder, and what its tokenizer is like."""

    template: str | None = None
    pad: str | None = "<pad>"
    family: str = "llama"

    def source(self, folder: Path) -> PolicySource:
        torch.manual_seed(1)
        tokenizer = character_tokenizer(ALPHABET, 64)
        tokenizer.chat_template, tokenizer.pad_token = self.template, self.pad
        Policy(FAMILIES[self.family](), tokenizer).save(folder)
        return PretrainedPolicy(str(folder))


class Compared(PromptSource):
    """Ten questions, each with a better and a worse answer."""

    size = 10

    def prompt(self, index: int) -> Prompt:
        columns: dict[str, JSON] = {"chosen": str(index), "rejected": str(index) * (index % 3 + 2)}
        return Prompt(id=str(index), text=f"{index}?", columns=columns)


def fit(policy: PolicySource, folder: Path) -> RewardModeling:
    torch.manual_seed(0)
    subject = RewardModeling(policy, batch_size=10, optimizer=lambda p: torch.optim.AdamW(p, lr=0.02))
    trainer = quiet_trainer(max_steps=4, default_root_dir=folder, callbacks=[ExportRewardModel(str(folder / "rm"))])
    trainer.fit(subject, datamodule=PromptData(train=Compared()))
    return subject


@torch.no_grad()
def scores(subject: RewardModeling, rows: Any) -> list[float]:
    """Those of the network in training, row by row."""
    ids = [subject.policy.encode(prompt, text) for prompt, text in zip(rows.prompts, rows.completions, strict=True)]
    return [float(subject.policy(torch.tensor([row]), torch.tensor([len(row) - 1]))) for row in ids]


@pytest.mark.parametrize(
    "saved",
    [Saved(), Saved(TURNS), Saved(TURNS, pad="<eos>"), Saved(family="qwen2, tied"), Saved(TURNS, family="gpt2")],
    ids=["llama", "llama, turns", "llama, padded with EOS", "qwen2, tied", "gpt2, turns"],
)
def test_the_reward_the_critic_and_transformers_say_what_training_said(saved: Saved, tmp_path: Path) -> None:
    source = saved.source(tmp_path / "policy")
    subject, folder = fit(source, tmp_path), tmp_path / "rm"
    rows = random_rollout(source.build())
    expected = scores(subject, rows)
    assert max(expected) - min(expected) > 0.1
    assert RewardModel(str(folder)).score(rows).value.tolist() == pytest.approx(expected, abs=1e-5)
    assert _transformers(folder, subject, rows) == pytest.approx(expected, abs=1e-5)
    critic = ValueModel(path=str(folder)).build(source.build())
    ids = torch.tensor([subject.policy.encode(rows.prompts[0], rows.completions[0])])
    with torch.no_grad():
        assert float(critic(ids, lambda trunk: trunk(input_ids=ids).last_hidden_state)[0, -1]) == pytest.approx(expected[0], abs=1e-5)


@torch.no_grad()
def _transformers(folder: Path, subject: RewardModeling, rows: Any) -> list[float]:
    """The scores of all rows in one padded batch, the last token found as transformers finds it."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert (model.config.num_labels, model.config.pad_token_id) == (1, tokenizer.pad_token_id)
    turns = [
        [{"role": "user", "content": prompt.text}, {"role": "assistant", "content": text}]
        for prompt, text in zip(rows.prompts, rows.completions, strict=True)
    ]
    asked = [tokenizer.apply_chat_template(turn, return_dict=False) for turn in turns]
    assert asked == [subject.policy.encode(prompt, text) for prompt, text in zip(rows.prompts, rows.completions, strict=True)]
    if tokenizer.pad_token_id is None:
        return [float(model(torch.tensor([ids])).logits) for ids in asked]
    batch = tokenizer.pad({"input_ids": asked}, padding_side="right", return_tensors="pt")
    return model(**batch).logits[:, 0].tolist()  # type: ignore[no-any-return]


def test_adapters_are_written_as_a_whole_model(tmp_path: Path) -> None:
    base = Saved().source(tmp_path / "policy")
    subject = fit(LoraPolicy(base, r=2), tmp_path)
    learning = {name for name, p in subject.policy.named_parameters() if p.requires_grad}
    assert any("score" in name for name in learning)
    assert any("lora" in name for name in learning)
    assert not any("embed" in name for name in learning)
    rows = random_rollout(base.build())
    expected = scores(subject, rows)
    assert RewardModel(str(tmp_path / "rm")).score(rows).value.tolist() == pytest.approx(expected, abs=1e-5)


def test_an_architecture_without_a_classifier_is_refused(tmp_path: Path) -> None:
    config = CohereConfig(**SHAPE, **IDS, max_position_embeddings=64)
    Policy(CohereForCausalLM(config), character_tokenizer(ALPHABET, 64)).save(tmp_path / "policy")
    with pytest.raises(ValueError, match="CohereForCausalLM"):
        fit(PretrainedPolicy(str(tmp_path / "policy")), tmp_path)
