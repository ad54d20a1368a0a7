"""`micro_batch_tokens: auto` is a function of model and device, chosen once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop import CodePoints, quiet_trainer
from transformers import AutoModelForCausalLM, LlamaConfig

from lightrl import DigitSorting, GroupRelative, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.callbacks.run_folder import SaveResolvedConfig
from lightrl.training.steps.fitting_passes import LEAST, MOST_ELSEWHERE, SHARE, fitting_tokens

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
    assert fitting_tokens(llama(128, 4, 24), "32-true", "cpu", 24 * GB) == 1024
    # 160 MiB of 6 layers of 15 x 384 + 4 x 1536 numbers of 4 bytes are 587 tokens
    assert fitting_tokens(llama(384, 6, 24), "32-true", "cpu", 24 * GB) == 512


def test_a_model_of_a_real_size_has_as_many_as_its_parameters_need_memory() -> None:
    model = llama(576, 30, 49_152)
    # 16 bytes of 216 million parameters are 1,600 tokens of 30 layers of 15 x 576 + 4 x 2304 numbers of 4 bytes; 160 MiB were 78
    assert fitting_tokens(model, "32-true", "cpu", 24 * GB) == 1024
    # a half of 3 GB less two chunks of logits
    assert fitting_tokens(model, "32-true", "cpu", 3 * GB) == 512


def test_by_hand() -> None:
    # a half of 8 GB less 2 x 128 x 1000 logits of 4 bytes, for 10 layers of 17 x 512 + 4 x 2048 numbers of 2 bytes
    exact = (4 * GB - 2 * 128 * 1000 * 4) / (10 * (17 * 512 + 4 * 2048) * 2)
    assert 8192 <= exact < 16_384
    assert fitting_tokens(llama(512, 10, 1000), "bf16-true", "cuda", 8 * GB) == 8192
    # 23 x 512 in mixed precision are fewer than 8192 of half the memory
    assert fitting_tokens(llama(512, 10, 1000), "bf16-mixed", "cuda", 4 * GB) == 4096


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
    tokens = fitting_tokens(model, "bf16-true", "cuda", memory * GB)
    assert tokens.bit_count() == 1
    assert LEAST <= tokens <= MOST_ELSEWHERE
    kept = 2 * layers * (17 + 16) * width
    assert tokens == LEAST or tokens * kept <= SHARE * memory * GB
    wider, roomier = fitting_tokens(model, "32-true", "cuda", memory * GB), fitting_tokens(model, "bf16-true", "cuda", 2 * memory * GB)
    assert wider <= tokens <= roomier


def test_architectures_whose_config_does_not_name_the_width_of_the_mlp() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=16))
    assert fitting_tokens(model, "32-true", "cpu", 24 * GB) == 1024


def module(tokens: object = "auto", algorithm: GroupRelative | None = None) -> PolicyOptimization:
    return PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1),
        algorithm=algorithm or GroupRelative(),
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
    assert first.learner.budget.tokens == 1024
    monkeypatch.setattr("lightrl.training.steps.fitting_passes.total_memory", lambda: 2**20)
    for tokens, kept in (("auto", 1024), (77, 77), (None, None)):
        again = module(tokens)
        quiet_trainer(max_epochs=2, default_root_dir=tmp_path).fit(again, datamodule=data, ckpt_path=tmp_path / "x.ckpt")
        assert again.learner.budget.tokens == kept
    new = module()
    quiet_trainer(max_epochs=1, default_root_dir=tmp_path).fit(new, datamodule=data)
    assert new.learner.budget.tokens == LEAST


def test_m3_auto_leaves_room_for_what_stands_in_memory_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine beside the trainer has two thirds of a device, and weights and optimizer come to the rest."""
    from lightrl.training.steps import fitting_passes
    from lightrl.training.steps.fitting_passes import TokenBudget

    class OneRank:
        world_size = 1
        largest = staticmethod(int)

    def chosen(free: float, standing: float) -> int | None:
        known = SimpleNamespace(mem_get_info=lambda device: (int(free * GB), 80 * GB), memory_reserved=lambda device: 0)
        monkeypatch.setattr(fitting_passes.torch, "get_device_module", lambda device: known)
        budget = TokenBudget("auto")
        budget.choose(llama(1024, 24), "bf16-mixed", torch.device("cuda", 0), OneRank(), standing * GB)  # type: ignore[arg-type]
        return budget.tokens

    assert chosen(80, 0) == MOST_ELSEWHERE
    beside = chosen(26, 8)
    assert LEAST < beside < MOST_ELSEWHERE
    kept = 2 * 24 * (23 + 16) * 1024
    assert beside * kept <= SHARE * 18 * GB
    assert chosen(80, 62) == beside
    assert chosen(26, 30) == LEAST


def test_a_run_counts_weights_gradients_optimizer_and_reference_before_it_chooses() -> None:
    from lightrl import FrozenReference, KLPenalty
    from lightrl.training.steps.run_memory import run_memory

    algorithm = GroupRelative(kl=KLPenalty(loss_coefficient=0.1), reference=FrozenReference())
    subject = module(algorithm=algorithm)
    quiet_trainer(max_epochs=1).fit(subject, datamodule=PromptData(train=DigitSorting(examples=20)))
    weights = 4 * sum(p.numel() for p in subject.policy.parameters())
    found = run_memory(subject)
    assert (found.weights, found.gradients, found.optimizer, found.reference) == (weights, weights, 2 * weights, weights)


def test_the_saved_config_has_the_number(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    saver = SaveResolvedConfig("model:\n  micro_batch_tokens: auto\n  seed: 0\n")
    trainer = quiet_trainer(max_epochs=1, logger=CSVLogger(tmp_path), callbacks=[saver])
    trainer.fit(module(), datamodule=PromptData(train=DigitSorting(examples=20)))
    written = yaml.safe_load((Path(str(trainer.log_dir)) / "config.yaml").read_text())
    assert written == {"model": {"micro_batch_tokens": 1024, "seed": 0}}
