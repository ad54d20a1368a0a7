"""Float32 copies of weights in half precision, which the optimizer moves in their place.

A step of 1e-6 is less than half of what parts two neighbours in bfloat16, so that most weights would never move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from lightrl.strategies.checkpoint_files import CheckpointError

HALVES = frozenset({torch.bfloat16, torch.float16})
"""Formats whose weights have a copy."""
KEY = "master_weights"
"""The copies in the state of an optimizer, by the names of their weights."""
Groups = list[dict[str, Any]]


class MasterWeights:
    """The float32 copies of the weights in half precision that an optimizer is to move.

    A weight's gradient is added to that of its copy as soon as a backward pass has it, so that micro-batches add up in float32. After
    each step the weight is its copy, rounded. Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.1.
    """

    def __init__(self, groups: Groups, module: nn.Module) -> None:
        ours = {p for group in groups for p in group["params"]}
        self._names = {name: p for name, p in module.named_parameters(remove_duplicate=False) if p in ours}
        self._copies = {p: nn.Parameter(p.detach().float()) for p in ours if p.dtype in HALVES}
        self._groups = [{**group, "params": [self.moved(p) for p in group["params"]]} for group in groups]
        for weight in self._copies:
            weight.register_post_accumulate_grad_hook(self._take_gradient)

    def __len__(self) -> int:
        """Weights that have a copy."""
        return len(self._copies)

    def optimizer(self, make: Callable[[Groups], torch.optim.Optimizer]) -> torch.optim.Optimizer:
        """The optimizer of the copies, and of weights that need none; the copies are part of its state."""
        made = make(self._groups)
        made.register_step_post_hook(self._round)
        made.register_state_dict_post_hook(self._save)
        made.register_load_state_dict_pre_hook(self._load)
        return made

    def moved(self, weight: nn.Parameter) -> nn.Parameter:
        """The tensor that the optimizer moves, with a gradient: the copy of a weight, or itself where it needs none."""
        return self._copies.get(weight, weight)

    def _take_gradient(self, weight: Tensor) -> None:
        copy, gradient = self._copies[weight], weight.grad  # type: ignore[index]
        weight.grad = None
        if gradient is not None:
            copy.grad = gradient.float() if copy.grad is None else copy.grad.add_(gradient)

    @torch.no_grad()
    def _round(self, *_: object) -> None:
        for weight, copy in self._copies.items():
            weight.copy_(copy)

    def _save(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        if self._copies:
            state[KEY] = {name: self._copies[weight].detach() for name, weight in self._names.items() if weight in self._copies}

    @torch.no_grad()
    def _load(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Take the copies of a checkpoint; a run that needs none has its weights from them."""
        held = state.pop(KEY, {})
        if missing := [name for name, weight in self._names.items() if weight in self._copies and name not in held]:
            raise CheckpointError(
                f"ckpt_path: the checkpoint has no float32 copy of {missing[0]}, which this run keeps of weights in half precision.\n"
                "Type the trainer.precision and the model.policy.dtype of the run that wrote it, or train from the folder of lightrl export"
            )
        for name, weight in self._names.items():
            if name in held:
                self.moved(weight).copy_(cut_like(held[name], weight))


def cut_like(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, or this rank's share of it where another tensor is cut."""
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
