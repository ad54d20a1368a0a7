"""Reference policies: which policy is the anchor or the teacher?"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from lightrl.ops.lazy import read
from lightrl.ops.pretrained import ReplacedTensors
from lightrl.parts.base import Part
from lightrl.types import ScoredRollout


@runtime_checkable
class Adapted(Protocol):
    """A policy that is a frozen base with adapters, and so holds its own reference."""

    def base(self) -> AbstractContextManager[nn.Module]:
        """Within, the adapters are off."""

    def begins_at_base(self) -> bool:
        """The adapters change nothing yet."""


class Reference(Part):
    """Knows another policy, such as the anchor of the KL or a teacher. Built only if a part needs its log-probs."""

    wants_adapters: bool = False
    """It can be built only from a policy that trains adapters."""
    starts_as_policy: bool = True
    """Before the first step it is the policy; False: it is a policy of its own, whatever policy is trained."""
    gives_logits: bool = False
    """It can also give all logits at a token, for parts that compare them."""

    def check(self, policy: nn.Module) -> None:
        """Refuse, with a ValueError, a policy for which it cannot be built; before `build`, when its weights may not have been read."""

    @abstractmethod
    def build(self, policy: nn.Module) -> None:
        """Remember the policy as it is before the first step; called before any checkpoint is loaded."""

    @abstractmethod
    def logprobs(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Tensor:
        """`[n, L]` log-probs of the selected tokens under this reference, 0 elsewhere; called without gradient, by every rank.

        Args:
            policy: as it is now.
            input_ids: `[n, L]`, rows from position 0, padded on the right with any id.
            mask: `[n, L]` bool, tokens whose log-prob is wanted.
            temperature: divides the logits; > 0.
        """

    def logits(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Callable[[slice], Tensor]:
        """A function that gives `[k, V]` logits before any slice of the selected tokens, in their order; arguments as of `logprobs`.

        Raises:
            ValueError: it gives log-probs alone.
        """
        raise ValueError(
            f"{type(self).__name__} gives the log-probs of sampled tokens, and a part compares all logits with it: take a Teacher, or a "
            "part that needs the log-probs alone"
        )

    def contexts(self, rows: ScoredRollout, policy: nn.Module) -> Sequence[Sequence[int]] | None:
        """N prompts in token ids that it reads in place of the policy's, empty for a row of which it knows no more; None: it never does.

        Called once for each rollout, before its log-probs are asked for. The tokens that follow a prompt in its row stay as they are.

        Args:
            rows: of this rank, whole groups, with their scores.
            policy: a `lightrl.Policy`, whose `encode` makes tokens of a prompt.
        """
        return None

    @property
    def kept_bytes(self) -> int:
        """Memory of its own on the device that trains, between its passes too."""
        return 0

    def at_hand(self, policy: nn.Module) -> AbstractContextManager[None]:
        """Within, the reference is asked several times, so that what it moves to the policy's device is moved once."""
        return nullcontext()

    def moves_at(self, step: int) -> bool:
        """The reference takes something over from the policy after this many optimizer steps."""
        return False

    def after_step(self, policy: nn.Module, step: int) -> None:
        """Called after each optimizer step at which the reference moves, with the policy's weights whole on this rank."""


class ModuleReference(Reference):
    """A reference that is a module in the run's own process."""

    @abstractmethod
    def anchor(self, policy: nn.Module) -> AbstractContextManager[Any]:
        """A context manager that gives the module whose log-probs are the reference's."""

    def logprobs(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Tensor:
        with self.anchor(policy) as anchor:
            found: Tensor = anchor(input_ids, mask, temperature).logprobs
        return found


class FrozenReference(ModuleReference):
    """The policy as it was before the first step.

    Where adapters are trained on a frozen base, that is the base with the adapters off, and costs no memory; else it is a copy, in the
    dtype that the policy computes in. On a resume it is built again from the policy's own source, so that no checkpoint stores it.
    """

    gives_logits = True
    rounds_as_policy: ClassVar[bool] = True
    """Its weights are as exact as the policy's, which a strategy may have rounded since the copy was taken."""

    def __init__(self, offload: Literal["cpu"] | None = None) -> None:
        """
        Args:
            offload: `cpu` keeps the copy there, and has one more on the policy's device for the time of a pass over a rollout, or of an
                optimizer step that compares logits; null keeps it on the device. Adapters need no copy, so there is nothing to offload.
        """
        self.offload = offload
        self._anchor: nn.Module | None = None
        self._is_base = self._is_at_hand = False

    def build(self, policy: nn.Module) -> None:
        """See `Reference.build`; a ValueError if the policy begins with adapters that already change its base."""
        self._is_base = isinstance(policy, Adapted)
        if isinstance(policy, Adapted) and not policy.begins_at_base():
            raise ValueError(
                "algorithm.reference: FrozenReference is the policy before its first step, and this one begins with adapters that change "
                "its base. Take BaseReference for the base with the adapters off, or merge the adapters first: lightrl export"
            )
        if not self._is_base:
            self._anchor = frozen_copy(policy)

    @property
    def kept_bytes(self) -> int:
        """Those of the copy; none with adapters, or where it is offloaded."""
        kept = () if self._anchor is None or self.offload is not None else self._anchor.parameters()
        return sum(parameter.numel() * parameter.itemsize for parameter in kept)

    @contextmanager
    def anchor(self, policy: nn.Module) -> Iterator[Any]:
        if self._is_base and isinstance(policy, Adapted):
            with policy.base() as base:
                yield base
            return
        if self._anchor is None:
            raise RuntimeError("the reference was not built before it was asked for log-probs")
        with self.at_hand(policy):
            yield self._anchor

    @contextmanager
    def at_hand(self, policy: nn.Module) -> Iterator[None]:
        if self._anchor is None or self._is_at_hand:
            yield
            return
        like = next(policy.parameters())
        if self.rounds_as_policy:
            self._anchor.to(like.dtype)
        if self.offload is None:
            self._anchor.to(like.device)
            yield
            return
        self._is_at_hand = True
        try:
            with on_device(self._anchor, like.device).in_place():
                yield
        finally:
            self._is_at_hand = False

    def logits(self, policy: nn.Module, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Callable[[slice], Tensor]:
        if self._is_base:
            # its head may be cut over the ranks, and stands together in a forward pass alone
            return super().logits(policy, input_ids, mask, temperature)
        with self.anchor(policy) as anchor:
            found: Callable[[slice], Tensor] = anchor.logits(input_ids, mask, temperature)
        return found


class BaseReference(ModuleReference):
    """The base under the adapters: what the policy would be with its adapters off. It needs no memory.

    Also where training goes on from adapters that have already learnt something.
    """

    wants_adapters = True

    def check(self, policy: nn.Module) -> None:
        self._adapted(policy)

    def build(self, policy: nn.Module) -> None:
        """See `Reference.build`; a ValueError if the policy has no adapters."""
        self._adapted(policy)

    @contextmanager
    def anchor(self, policy: nn.Module) -> Iterator[nn.Module]:
        with self._adapted(policy).base() as base:
            yield base

    def _adapted(self, policy: nn.Module) -> Adapted:
        if not isinstance(policy, Adapted):
            raise ValueError(
                "algorithm.reference: BaseReference turns the adapters of a policy off, and this policy has none: take FrozenReference, "
                "or LoraPolicy as model.policy"
            )
        return policy


def on_device(module: nn.Module, device: torch.device) -> ReplacedTensors:
    """Copies of a frozen module's tensors on a device, each moved once; its own stay where they are, so that nothing is moved back."""
    if device.type == "cuda":
        for tensor in (*module.parameters(), *module.buffers()):
            # once for all passes: from pinned memory a device reads at its full speed
            tensor.data = tensor.data if tensor.is_pinned() else tensor.data.pin_memory()
    moved = cache(lambda tensor: tensor.to(device, non_blocking=True))
    return ReplacedTensors(module, lambda _, tensor: moved(tensor))


def frozen(module: nn.Module) -> nn.Module:
    """The module itself, never trained, and whole on each rank, since no strategy cuts it."""
    read(module.requires_grad_(False).eval())
    return module


def frozen_copy(policy: nn.Module) -> nn.Module:
    """A copy of the policy as it is, never trained, and whole on each rank."""
    return frozen(copy.deepcopy(policy))
