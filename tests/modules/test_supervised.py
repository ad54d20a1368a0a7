"""Supervised fine-tuning learns, stops at a validation accuracy, and hands on a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping

from lightrl import DigitSorting, PretrainedPolicy, Prompt, PromptData, RowReward, SupervisedFineTuning, TinyPolicy, TransformersEngine
from lightrl.callbacks.export import ExportPolicy
from lightrl.modules.supervised import encode_examples


class Right(RowReward):
    """1 for the answer itself."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: str) -> float:
        return float(completion == answer)


def trainer(tmp_path: Path, **changes: Any) -> Trainer:
    settings: dict[str, Any] = {
        "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
        "enable_checkpointing": False, "num_sanity_val_steps": 0, "default_root_dir": tmp_path,
    }  # fmt: skip
    return Trainer(**{**settings, **changes})


def module(**changes: Any) -> SupervisedFineTuning:
    settings: dict[str, Any] = {
        "policy": TinyPolicy(hidden=32, layers=2),
        "batch_size": 64,
        "rewards": {"right": Right()},
        "engine": TransformersEngine(max_new_tokens=4),
        "micro_batch_tokens": 256,
        "optimizer": lambda p: torch.optim.AdamW(p, lr=5e-3),
    }
    return SupervisedFineTuning(**{**settings, **changes})


def test_it_stops_at_the_accuracy_that_was_asked_for_and_exports_what_it_learnt(tmp_path: Path) -> None:
    stop = EarlyStopping("val/rewards/right/mean", mode="max", stopping_threshold=0.5, patience=1000)
    run = trainer(
        tmp_path, max_steps=400, val_check_interval=10, check_val_every_n_epoch=None, callbacks=[stop, ExportPolicy(str(tmp_path / "out"))]
    )
    subject = module()
    run.fit(subject, datamodule=PromptData(train=DigitSorting(length=2, examples=60), validation_size=20))
    assert run.global_step < 400
    assert run.callback_metrics["val/rewards/right/mean"] >= 0.5
    exported = PretrainedPolicy(str(tmp_path / "out")).build()
    for name, value in subject.policy.state_dict().items():
        assert torch.equal(value, exported.state_dict()[name])


def test_steps_and_epochs_are_what_lightning_says(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_epochs=2)
    run.fit(module(batch_size=16, rewards=None), datamodule=PromptData(train=DigitSorting(length=2, examples=50)))
    assert run.global_step == 8


@pytest.mark.parametrize("budget", [16, 64])
def test_the_step_does_not_depend_on_the_micro_batches_and_is_the_token_mean(tmp_path: Path, budget: int) -> None:
    def moved(tokens: int | None) -> dict[str, torch.Tensor]:
        subject = module(
            policy=TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64"), rewards=None, micro_batch_tokens=tokens, batch_size=6,
            optimizer=lambda p: torch.optim.SGD(p, lr=1.0), max_grad_norm=None,
        )  # fmt: skip
        trainer(tmp_path, max_steps=1).fit(subject, datamodule=PromptData(train=DigitSorting(length=3, examples=6), shuffle=False))
        return subject.policy.state_dict()

    whole, cut = moved(None), moved(budget)
    policy = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64").build()
    source = DigitSorting(length=3, examples=6)
    examples = encode_examples(policy, [source.prompt(i) for i in range(6)])
    mask = examples.token_weight > 0
    (-policy(examples.input_ids, mask).logprobs.sum() / mask.sum()).backward()
    for (name, value), parameter in zip(policy.named_parameters(), policy.parameters(), strict=True):
        assert float((whole[name] - cut[name]).abs().max()) <= 1e-12
        assert float((whole[name] - value.detach() + parameter.grad).abs().max()) <= 1e-7  # token weights are float32


def test_answers_end_with_eos_and_prompts_carry_no_loss() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    examples = encode_examples(policy, [Prompt(id="a", text="21=", answer="12"), Prompt(id="b", text="3=", answer=3)])
    assert examples.lengths.tolist() == [6, 4]
    assert examples.token_weight.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]]
    assert examples.input_ids[0, 5] == examples.input_ids[1, 3] == 1


def test_a_prompt_without_an_answer_and_a_row_that_is_too_long_are_named() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, max_positions=8).build()
    with pytest.raises(ValueError, match="'a' has no answer to imitate"):
        encode_examples(policy, [Prompt(id="a", text="21=")])
    with pytest.raises(ValueError, match="'b' and its answer take 10 tokens, and the policy takes 8"):
        encode_examples(policy, [Prompt(id="b", text="2121=", answer="1122")])
