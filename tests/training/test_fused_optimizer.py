"""Adam and AdamW are fused where nobody has said how they step, and learn what they would have learnt."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lightrl.training.setup.optimizer_checks import fuse

CUDA = torch.device("cuda")
"""Steps are to be made there; torch's fused kernels take parameters on a CPU as well."""


def weights_after(kind: Any, fused: bool, **arguments: Any) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (5,))]
    optimizer = kind([{"params": weights[:1], "lr": 0.1}, {"params": weights[1:]}], lr=0.01, **arguments)
    if fused:
        assert fuse(optimizer, CUDA) is not None
        assert all(group["fused"] for group in optimizer.param_groups)
    for _ in range(4):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()
    return [weight.detach() for weight in weights]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_fused_step_is_the_same_step(kind: Any) -> None:
    for ours, theirs in zip(weights_after(kind, True, weight_decay=0.1), weights_after(kind, False, weight_decay=0.1), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)


def test_a_fused_optimizer_goes_on_from_its_state() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    fuse(optimizer, CUDA)
    weight.grad = torch.ones(3)
    optimizer.step()
    again = torch.optim.AdamW([weight], lr=0.1)
    fuse(again, CUDA)
    again.load_state_dict(optimizer.state_dict())
    again.step()
    assert again.param_groups[0]["fused"] is True
    assert again.state[weight]["step"] == 2


@pytest.mark.parametrize("arguments", [{"fused": False}, {"fused": True}, {"foreach": True}, {"capturable": True}])
def test_what_was_said_is_kept(arguments: dict[str, bool]) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], **arguments)
    assert fuse(optimizer, CUDA) is None
    assert {name: optimizer.param_groups[0][name] for name in arguments} == arguments


def test_other_optimizers_and_devices_are_left_alone() -> None:
    parameters = [torch.nn.Parameter(torch.ones(1))]

    class Mine(torch.optim.AdamW):
        pass

    assert fuse(torch.optim.SGD(parameters, lr=0.1), CUDA) is None
    assert fuse(Mine(parameters), CUDA) is None
    assert fuse(torch.optim.AdamW(parameters), torch.device("cpu")) is None
