"""Weights in half precision move as float32 ones do: the optimizer moves float32 copies, which a checkpoint has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import SmallDigits, quiet_trainer
from torch import nn

from lightrl import DigitSorting, GroupRelative, GroupSampler, LoraPolicy, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.strategies.checkpoint_files import CheckpointError
from lightrl.strategies.master_weights import KEY, MasterWeights

OPTIMIZERS: dict[str, Any] = {
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=1e-6),
    "fused": lambda groups: torch.optim.AdamW(groups, lr=1e-6, fused=True),
    "SGD": lambda groups: torch.optim.SGD(groups, lr=1e-5, momentum=0.9),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=1e-6),
    "Adafactor": lambda groups: torch.optim.Adafactor(groups, lr=1e-4),
}


def layer(dtype: torch.dtype) -> nn.Linear:
    made = nn.Linear(16, 8)
    with torch.no_grad():
        for parameter in made.parameters():
            numbers = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.ndim))
            parameter.copy_(numbers.bfloat16())
    return made.to(dtype)


def mastered(module: nn.Module, make: Any = OPTIMIZERS["AdamW"]) -> tuple[MasterWeights, torch.optim.Optimizer]:
    masters = MasterWeights([{"params": list(module.parameters())}], module)
    return masters, masters.optimizer(make)


def learn(module: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Steps on gradients that are the same in every format."""
    for step in steps:
        for parameter in module.parameters():
            pull = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step)).bfloat16()
            (parameter * pull.to(parameter.dtype)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def module_of(dtype: str, lora: bool = False, rate: float = 1e-6) -> PolicyOptimization:
    base = TinyPolicy(hidden=32, dtype=dtype)  # type: ignore[arg-type]
    return PolicyOptimization(
        policy=LoraPolicy(base, r=4) if lora else base,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4)),
        rewards={"digits": SmallDigits()},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=4,
        optimizer=lambda p: torch.optim.AdamW(p, lr=rate, weight_decay=0.0),
    )


def fit(module: PolicyOptimization, rollouts: int, precision: str = "bf16-true", path: str | None = None) -> PolicyOptimization:
    trainer = quiet_trainer(precision=precision, max_epochs=rollouts)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40), validation_size=0), ckpt_path=path)
    return module


def weights(module: PolicyOptimization) -> dict[str, torch.Tensor]:
    """What the optimizer moves."""
    return {name: module.learner.adapter.moved(p).detach().clone() for name, p in module.policy.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_steps_of_bfloat16_weights_are_those_of_float32_and_the_weights_their_rounding(make: Any) -> None:
    whole, half = layer(torch.float32), layer(torch.bfloat16)
    alone, (masters, optimizer) = make([{"params": list(whole.parameters())}]), mastered(half, make)
    learn(whole, alone, range(20))
    learn(half, optimizer, range(20))
    for exact, rounded in zip(whole.parameters(), half.parameters(), strict=True):
        torch.testing.assert_close(masters.moved(rounded).detach(), exact.detach(), rtol=1e-6, atol=0)
        assert torch.equal(rounded, masters.moved(rounded).bfloat16())


def test_gradients_of_micro_batches_add_up_in_float32() -> None:
    weight = nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    masters = MasterWeights([{"params": [weight]}], nn.ParameterList([weight]))
    for _ in range(600):
        weight.sum().backward()
    found = masters.moved(weight).grad
    # in bfloat16 256 + 1 is 256
    assert found is not None
    assert (found.dtype, float(found)) == (torch.float32, 600.0)


def test_a_tied_weight_has_one_copy_under_both_names() -> None:
    module = nn.ModuleDict({"embedding": nn.Embedding(3, 2), "head": nn.Linear(2, 3, bias=False)}).bfloat16()
    module["head"].weight = module["embedding"].weight  # type: ignore[assignment]
    masters, optimizer = mastered(module)
    held = optimizer.state_dict()[KEY]
    assert (len(masters), held.keys()) == (1, {"embedding.weight", "head.weight"})
    assert held["embedding.weight"] is held["head.weight"] or torch.equal(*held.values())


@pytest.mark.parametrize(("precision", "dtype"), [("32-true", "bfloat16"), ("bf16-true", "bfloat16"), ("bf16-mixed", "float32")])
def test_w2_weights_move_at_a_small_rate_under_every_precision(precision: str, dtype: str) -> None:
    first = {name: p.float() for name, p in TinyPolicy(hidden=32, dtype=dtype).build().named_parameters()}  # type: ignore[arg-type]
    found = weights(fit(module_of(dtype), 10, precision))
    moved = torch.cat([(found[name] != first[name]).flatten() for name in found])
    assert float(moved.float().mean()) > 0.98


def test_adapters_of_a_bfloat16_base_are_float32() -> None:
    module = fit(module_of("bfloat16", lora=True), 1)
    assert {(p.requires_grad, p.dtype) for p in module.policy.parameters()} == {(True, torch.float32), (False, torch.bfloat16)}


def test_a_bfloat16_run_goes_on_from_its_checkpoint_to_the_bit(tmp_path: Path) -> None:
    whole = fit(module_of("bfloat16"), 4)
    half = fit(module_of("bfloat16"), 2)
    half.trainer.save_checkpoint(tmp_path / "half.ckpt")
    resumed = fit(module_of("bfloat16"), 4, path=str(tmp_path / "half.ckpt"))
    there, here = weights(whole), weights(resumed)
    assert all(torch.equal(there[name], here[name]) for name in there)


def test_a_checkpoint_without_copies_is_refused_and_one_with_them_gives_a_float32_run_its_weights() -> None:
    half, whole = layer(torch.bfloat16), layer(torch.float32)
    masters, optimizer = mastered(half)
    learn(half, optimizer, range(3))
    _, alone = mastered(whole)
    alone.load_state_dict(optimizer.state_dict())
    for rounded, exact in zip(half.parameters(), whole.parameters(), strict=True):
        assert torch.equal(masters.moved(rounded), exact)
    with pytest.raises(CheckpointError, match=r"no float32 copy of weight.*\n.*trainer\.precision"):
        optimizer.load_state_dict(alone.state_dict())


RANKS = """
import sys, warnings
warnings.filterwarnings("ignore")
import importlib.util
spec = importlib.util.spec_from_file_location("tested", sys.argv[1])
tested = importlib.util.module_from_spec(spec)
sys.modules["tested"] = tested
spec.loader.exec_module(tested)
tested.on_two_ranks(sys.argv[2], sys.argv[3])
"""


def on_two_ranks(strategy: str, folder: str) -> None:
    """Two rollouts, then one more from a checkpoint and one more without: the same to the bit; the weights are written."""

    def run(rollouts: int, path: str | None = None) -> PolicyOptimization:
        module = module_of("bfloat16", rate=1e-4)
        trainer = quiet_trainer(precision="bf16-true", max_epochs=rollouts, strategy=strategy, devices=2)
        trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=40), validation_size=0), ckpt_path=path)
        return module

    def whole(module: PolicyOptimization) -> dict[str, torch.Tensor]:
        adapter = module.learner.adapter
        return {name: adapter.whole(adapter.moved(p)).detach().clone() for name, p in module.policy.named_parameters()}

    path = f"{folder}/{strategy}.ckpt"
    run(2).trainer.save_checkpoint(path)
    there, here = whole(run(3)), whole(run(3, path))
    assert all(torch.equal(there[name], here[name]) for name in there)
    torch.save(there, f"{folder}/{strategy}.pt")


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", [pytest.param("ddp", marks=pytest.mark.rare), "fsdp2"])
def test_two_ranks_move_bfloat16_weights_as_one_does_and_resume_to_the_bit(strategy: str, tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    done = subprocess.run(
        [sys.executable, str(script), __file__, strategy, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    alone = weights(fit(module_of("bfloat16", rate=1e-4), 3))
    found = torch.load(tmp_path / f"{strategy}.pt", weights_only=True)
    first = TinyPolicy(hidden=32, dtype="bfloat16").build().state_dict()
    moved = sum(float((alone[name] - first[name].float()).abs().sum()) for name in alone)
    apart = sum(float((alone[name] - found[name]).abs().sum()) for name in alone)
    # the same completions, but for a few whose likeliest tokens rounding exchanges
    assert apart < 0.2 * moved
