"""Every number that is not the network's is float32 or better, whatever precision the trainer has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import quiet_trainer
from lightrl_workshop.verbs import config_step

from benchmarks import config_file
from lightrl import (
    DigitSorting,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    PromptData,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.parts.critic import value_head
from tests.training.format_watch import FormatWatch

KINDS = {
    "GRPO": "grpo_sort",
    "a critic": "ppo_sort",
    "DAPO": "dapo_sort",
    "DCPO": "dcpo_sort",
    "GSPO": "gspo_sort",
    "whitening": "reinforce_plus_plus_sort",
    "adapters with a KL": "grpo_lora_sort",
    "distillation": "gkd_sort",
    "experts": "moe_grpo",
    "tools": "grpo_calculator",
    "an environment": "grpo_guess",
    "DPO": "dpo_sort",
    "KTO": "kto_sort",
    "SFT": "sft_sort",
    "a reward model": "reward_model_sort",
}
PRECISIONS = {"bf16-true": "bfloat16", "bf16-mixed": "float32"}


class Large(RowReward):
    """1001.3 and its neighbours, which bfloat16 would round to 1000 or 1004."""

    runs = "inline"

    def score(self, prompt: str, completion: str, **columns: object) -> float:
        return 1001.3 + 0.1 * (len(completion) % 7)


class Kept(PolicyOptimization):
    """Keeps what it learns from."""

    batch: Any

    def optimization_phase(self, batch: Any) -> None:
        self.batch = batch
        super().optimization_phase(batch)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_rewards_and_advantages_are_not_rounded(precision: str) -> None:
    module = Kept(
        policy=TinyPolicy(hidden=16, layers=1, dtype=PRECISIONS[precision]),  # type: ignore[arg-type]
        algorithm=GroupRelative(sampler=GroupSampler(group_size=8), advantage=GroupCentered()),
        rewards={"large": Large()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
    )
    trainer = quiet_trainer(precision=precision, max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40)))
    exact = torch.tensor([Large().score("", completion) for completion in module.batch.completions], dtype=torch.float32)
    assert torch.equal(module.batch.rewards, exact)
    centred = exact - exact.view(4, 8).mean(1, keepdim=True).expand(4, 8).reshape(-1)
    mask = module.batch.response_mask
    found = (module.batch.advantages * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(found, centred, rtol=0, atol=1e-3)
    assert float(trainer.callback_metrics["reward"]) == pytest.approx(float(exact.mean()), rel=1e-6)


def lines_of(config: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What a watch finds in a rollout and its steps."""
    monkeypatch.setitem(config_step.TRAINER, "precision", precision)
    monkeypatch.setitem(config_step.SMALL, "dtype", PRECISIONS[precision])
    with FormatWatch() as watch:
        assert config_step.one_step(config_file(config)) >= 1
    return watch.found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["bf16-true", pytest.param("bf16-mixed", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_no_line_of_ours_rounds_a_number_without_saying_so(
    config: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lines_of(config, precision, monkeypatch) == set()


@pytest.fixture
def bfloat16_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("bfloat16_by_default")
def test_the_watch_finds_a_line_that_leaves_the_format_to_torch() -> None:
    with FormatWatch() as watch:
        value_head(4)
    assert watch.found


def test_values_come_in_float32_from_hidden_states_in_bfloat16() -> None:
    head = value_head(16).bfloat16()
    with torch.no_grad():
        head.bias.fill_(1001.0)
        found = head(torch.randn(9, 16, generator=torch.Generator().manual_seed(0)).bfloat16())
    assert found.dtype == torch.float32
    # bfloat16 has no number between 1000 and 1004
    assert len(found.unique()) > 1
