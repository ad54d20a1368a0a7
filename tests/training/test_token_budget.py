"""`micro_batch_tokens: auto` is a function of model and device, chosen once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig

from lightrl import DigitSorting, GroupRelative, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.callbacks.save_resolved_config import SaveResolvedConfig
from lightrl.testing import CodePoints, quiet_trainer
from lightrl.training.token_budget import LEAST, MOST_ELSEWHERE, SHARE, fitting_tokens

GB = 2**30


def llama(width: int, layers: int, vocabulary: int = 32_000) -> torch.nn.Module:
    """A model of this size without memory."""
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=4
    )
    with torch.device("meta"):
        model: torch.nn.Module = AutoModelForCausalLM.from_config(config)
    return model


def test_a_small_model_on_a_cpu_has_a_thousand_tokens_and_a_larger_one_half_of_them() -> None:
    assert fitting_tokens(llama(128, 4, 24), 4, "cpu", 24 * GB) == 1024
    # 128 MiB of 6 layers of 9 x 384 + 4 x 1536 numbers of 4 bytes are 582 tokens
    assert fitting_tokens(llama(384, 6, 24), 4, "cpu", 24 * GB) == 512


def test_by_hand() -> None:
    # a quarter of 8 GB less 2 x 128 x 1000 logits of 4 bytes, for 10 layers of 9 x 512 + 4 x 2048 numbers of 2 bytes
    exact = (2 * GB - 2 * 128 * 1000 * 4) / (10 * (9 * 512 + 4 * 2048) * 2)
    assert 8192 <= exact < 16_384
    assert fitting_tokens(llama(512, 10, 1000), 2, "cuda", 8 * GB) == 8192


@given(
    width=st.sampled_from([64, 512, 4096]),
    layers=st.integers(1, 80),
    memory=st.floats(1, 640),
    checkpointing=st.booleans(),
)
def test_activations_never_take_more_than_their_share_unless_the_least_does(
    width: int, layers: int, memory: float, checkpointing: bool
) -> None:
    model = llama(width, 1)
    model.config.num_hidden_layers = layers
    tokens = fitting_tokens(model, 2, "cuda", memory * GB)
    assert tokens.bit_count() == 1
    assert LEAST <= tokens <= MOST_ELSEWHERE
    kept = 2 * layers * (9 + 16) * width
    assert tokens == LEAST or tokens * kept <= SHARE * memory * GB
    assert fitting_tokens(model, 4, "cuda", memory * GB) <= tokens <= fitting_tokens(model, 2, "cuda", 2 * memory * GB)


def test_architectures_whose_config_does_not_name_the_width_of_the_mlp() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=16))
    assert fitting_tokens(model, 4, "cpu", 24 * GB) == 1024


def module(tokens: object = "auto") -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1),
        algorithm=GroupRelative(),
        rewards={"code points": CodePoints()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=2,
        micro_batch_tokens=tokens,
    )


@pytest.mark.parametrize("wrong", [0, -5, 2.5])
def test_what_is_no_number_of_tokens_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=f"PolicyOptimization needs micro_batch_tokens >= 1 or null, got micro_batch_tokens={wrong}"):
        module(wrong)


def test_a_resumed_run_goes_on_with_what_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PromptData(train=DigitSorting(examples=20))
    trainer = quiet_trainer(max_epochs=1, default_root_dir=tmp_path)
    first = module()
    trainer.fit(first, datamodule=data)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    assert first.token_budget.tokens == 1024
    monkeypatch.setattr("lightrl.training.token_budget.total_memory", lambda device: 2**20)
    for tokens, kept in (("auto", 1024), (77, 77), (None, None)):
        again = module(tokens)
        quiet_trainer(max_epochs=2, default_root_dir=tmp_path).fit(again, datamodule=data, ckpt_path=tmp_path / "x.ckpt")
        assert again.token_budget.tokens == kept
    new = module()
    quiet_trainer(max_epochs=1, default_root_dir=tmp_path).fit(new, datamodule=data)
    assert new.token_budget.tokens == LEAST


def test_the_saved_config_has_the_number(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    saver = SaveResolvedConfig("model:\n  micro_batch_tokens: auto\n  seed: 0\n")
    trainer = quiet_trainer(max_epochs=1, logger=CSVLogger(tmp_path), callbacks=[saver])
    trainer.fit(module(), datamodule=PromptData(train=DigitSorting(examples=20)))
    written = yaml.safe_load((Path(str(trainer.log_dir)) / "config.yaml").read_text())
    assert written == {"model": {"micro_batch_tokens": 1024, "seed": 0}}
