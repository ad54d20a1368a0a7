"""The framework takes the steps that GRPO in one file takes, to the same weights."""

from __future__ import annotations

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_grpo import GRPO
from lightrl_workshop import quiet_trainer

from lightrl import DecoupledClip, DigitSorting, GroupSampler, KLPenalty, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.parts.function import Function
from lightrl.policy.policy import Policy

FILE = Path(__file__).parents[2] / "examples" / "grpo_in_one_file.py"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("grpo_in_one_file", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["grpo_in_one_file"] = module
    spec.loader.exec_module(module)
    return module


def trained(minibatches: int, epochs: int) -> tuple[PolicyOptimization, Policy]:
    """After one rollout, and the policy as it was before."""
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=2, heads=2),
        algorithm=GRPO(
            sampler=GroupSampler(4),
            clip=DecoupledClip(0.02, 0.04),
            kl=KLPenalty(loss_coefficient=0.5),
            minibatches=minibatches,
            epochs=epochs,
        ),
        rewards={"small": Function("lightrl_workshop.toy.small_digits", runs="inline")},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=6,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.AdamW(p, lr=5e-3, eps=1e-2, weight_decay=0.0),
    )
    trainer = quiet_trainer(max_epochs=1)
    before = TinyPolicy(hidden=16, layers=2, heads=2).build()
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=60)))
    return module, before


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_framework_ends_at_the_weights_of_grpo_in_one_file(epochs: int) -> None:
    oracle, (module, before) = loaded(), trained(minibatches=1, epochs=epochs)
    seen = module.experience
    assert seen is not None
    batch = oracle.Batch(seen.input_ids, seen.response_mask, seen.rewards.float(), seen.group)
    model, reference = before.model.train(), copy.deepcopy(before.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, eps=1e-2, weight_decay=0.0)
    start = copy.deepcopy(model.state_dict())
    settings = oracle.Settings(minibatches=1, epochs=epochs, clip_low=0.02, clip_high=0.04, kl_coefficient=0.5)
    oracle.learn(model, reference, optimizer, batch, settings)
    mine = module.policy.model.state_dict()
    moved = max(float((mine[name] - weight).abs().max()) for name, weight in start.items())
    assert moved > 1e-3
    for name, weight in model.state_dict().items():
        assert torch.allclose(weight, mine[name], atol=1e-6), name


def test_completions_end_with_their_first_eos(tmp_path: Path) -> None:
    oracle, policy = loaded(), TinyPolicy(hidden=16, layers=1, heads=2).build()
    torch.manual_seed(0)
    batch = oracle.rollout(policy.model, policy.tokenizer, [("493027=", "023479"), ("111111=", "111111")], oracle.Settings(group_size=50))
    eos = (batch.ids == policy.tokenizer.eos_token_id) & batch.mask
    assert (eos.sum(1) <= 1).all()
    assert (eos.sum(1) == 1).any()
    last = batch.mask.long().cumsum(1).argmax(1)
    ended = eos.any(1)
    assert (eos.long().argmax(1)[ended] == last[ended]).all(), "nothing counts after it"
    assert not batch.mask[:, :7].any()


@pytest.mark.thorough
def test_it_runs_without_the_framework(tmp_path: Path) -> None:
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(tmp_path)
    code = f"import runpy, sys; sys.modules['lightrl'] = None; sys.argv[1:] = {['--policy', str(tmp_path), '--rollouts', '20']!r}; "
    code += f"runpy.run_path({str(FILE)!r}, run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr
    assert "rollout 20: reward" in ran.stdout
