"""`MuonAdamW`: which weights Muon moves, that its steps are those of torch, checkpoints, and strategies."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_muon import MuonAdamW
from lightrl_workshop import CodePoints, quiet_trainer
from torch import nn

from lightrl import (
    ActorCritic,
    DigitSorting,
    GroupSampler,
    LoraPolicy,
    PolicyOptimization,
    PromptData,
    SupervisedFineTuning,
    TinyPolicy,
    ValueHead,
)
from lightrl.policy.policy import Policy

HERE = Path(__file__).parent
TINY = TinyPolicy(hidden=16, layers=2, heads=2)


def group_of(module: nn.Module) -> dict[str, Any]:
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    return {"params": list(named.values()), "param_names": list(named)}


def moved_by_muon(policy: Policy) -> set[str]:
    group = group_of(policy.model)
    optimizer = MuonAdamW([group])
    chosen = set(optimizer.hidden(optimizer.param_groups[0]))
    return {name for name, p in policy.model.named_parameters() if p in chosen}


def test_muon_moves_the_matrices_of_layers_and_adamw_embeddings_head_and_norms() -> None:
    policy = TINY.build()
    matrices = {name for name, p in policy.model.named_parameters() if ".layers." in name and p.ndim == 2}
    assert len(matrices) == 2 * 7
    assert moved_by_muon(policy) == matrices


def test_muon_moves_both_matrices_of_an_adapter() -> None:
    policy = LoraPolicy(TINY, r=4).build()
    assert moved_by_muon(policy) == {name for name, p in policy.model.named_parameters() if p.requires_grad}


def test_names_to_be_left_to_adamw_can_be_given() -> None:
    optimizer = MuonAdamW([group_of(TINY.build().model)], adamw=("embed", "head", "mlp"))
    assert len(list(optimizer.hidden(optimizer.param_groups[0]))) == 2 * 4


def test_steps_are_those_of_the_two_optimizers_of_torch() -> None:
    ours, theirs = (nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    optimizer = MuonAdamW(ours.parameters(), lr=0.02, weight_decay=0.1, momentum=0.9, betas=(0.8, 0.99), eps=1e-6)
    matrices, vectors = ([p for p in theirs.parameters() if p.ndim == n] for n in (2, 1))
    beside = [
        torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(vectors, lr=0.02, weight_decay=0.1, betas=(0.8, 0.99), eps=1e-6),
    ]
    for seed in range(4):
        rows = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
        for model, optimizers in ((ours, [optimizer]), (theirs, beside)):
            model(rows).square().sum().backward()
            for one in optimizers:
                one.step()
                one.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_the_first_step_on_a_matrix_is_that_computed_by_hand() -> None:
    """A gradient with orthogonal rows of one length has itself, scaled, as its nearest orthogonal matrix; 2 rows of 2 give 0.2 sqrt(2)."""
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.tensor([[3.0, 0.0], [0.0, -3.0]])
    MuonAdamW([weight], lr=1.0).step()
    # five Newton-Schulz steps leave singular values between 0.7 and 1.2
    ratio = weight.detach() / (-0.2 * 2**0.5)
    assert ratio[0, 1] == ratio[1, 0] == 0
    assert 0.7 < ratio[0, 0] < 1.2
    assert ratio[1, 1] == -ratio[0, 0]


def test_it_goes_on_from_its_state() -> None:
    first = nn.Linear(5, 4)
    optimizer = MuonAdamW(first.parameters(), lr=0.1)
    rows = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))

    def steps(model: nn.Module, by: MuonAdamW) -> None:
        for _ in range(2):
            model(rows).square().sum().backward()
            by.step()
            by.zero_grad()

    steps(first, optimizer)
    second = copy.deepcopy(first)
    other = MuonAdamW(second.parameters(), lr=0.1)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(first, optimizer)
    steps(second, other)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_torch_before_2_9_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(RuntimeError, match=r"torch 2\.9.*AdamW"):
        MuonAdamW([nn.Parameter(torch.zeros(2, 2))])


@pytest.mark.parametrize(("precision", "dtype"), [("32-true", "float32"), ("bf16-true", "bfloat16")])
def test_a_policy_learns_by_it(precision: Any, dtype: Any) -> None:
    policy = TinyPolicy(hidden=32, layers=2, heads=2, dtype=dtype)
    module = SupervisedFineTuning(policy, batch_size=64, optimizer=lambda groups: MuonAdamW(groups, lr=1e-2))
    trainer = quiet_trainer(max_steps=80, precision=precision)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(length=3, examples=900)))
    # ln 10 = 2.3 nats a digit before anything is learnt
    assert float(trainer.callback_metrics["loss"]) < 1.0


def test_a_critic_has_its_own_rate() -> None:
    module = PolicyOptimization(
        policy=TINY,
        algorithm=ActorCritic(sampler=GroupSampler(2), critic=ValueHead(learning_rate=0.5)),
        rewards={"codes": CodePoints()},
        prompts_per_rollout=4,
        optimizer=lambda groups: MuonAdamW(groups, lr=1e-3),
    )
    quiet_trainer(max_epochs=1).fit(module, datamodule=PromptData(train=DigitSorting(length=3, examples=64)))
    optimizer: Any = module.optimizers()
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 0.5]


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", [pytest.param("ddp", marks=pytest.mark.rare), "fsdp2"])
def test_two_ranks_end_near_one_process(strategy: str, tmp_path: Path) -> None:
    """Newton-Schulz rounds to bfloat16, and enlarges what is small beside the largest singular value, rounding too."""
    start = {name: p.detach().clone() for name, p in saved(tmp_path).model.named_parameters()}
    one, two = (run(name, devices, tmp_path) for name, devices in (("auto", 1), (strategy, 2)))
    assert one.keys() == two.keys() == start.keys()
    steps, difference = (torch.cat([(one[n] - other[n]).flatten() for n in start]).norm() for other in (start, two))
    assert difference <= 0.05 * steps


@pytest.mark.thorough
def test_deepspeed_is_refused_by_name(tmp_path: Path) -> None:
    saved(tmp_path)
    done = started("deepspeed_stage_2", 1, tmp_path)
    assert done.returncode != 0
    assert "DeepSpeed cuts the matrices that MuonAdamW takes" in done.stderr


def saved(folder: Path) -> Policy:
    policy = TINY.build()
    policy.model.save_pretrained(folder / "policy")
    policy.tokenizer.save_pretrained(folder / "policy")
    return policy


def run(strategy: str, devices: int, folder: Path) -> dict[str, torch.Tensor]:
    done = started(strategy, devices, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(torch.load(folder / f"{strategy}.pt"))


def started(strategy: str, devices: int, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "two_ranks.py"), strategy, str(devices), str(folder / "policy"), str(folder / f"{strategy}.pt")]
    own = {name: value for name, value in os.environ.items() if name != "PL_GLOBAL_SEED"}
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=120, check=False)
