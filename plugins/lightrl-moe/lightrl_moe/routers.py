"""The routers of a mixture of experts, as transformers has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

TRIED = "Mixtral, Qwen2-MoE and Qwen3-MoE"
"""Families that the tests of this package train."""
TOLERANCE = 1e-4
"""Largest difference of an expert's weight from the one that is computed here."""
HALF_TOLERANCE = 0.02
"""The same for narrower numbers."""


@dataclass(frozen=True)
class Router:
    """A router inside a trunk."""

    name: str
    module: nn.Module
    """Gives logits `[P, E]`, weights `[P, k]` and the experts `[P, k]` of P positions."""

    @property
    def block(self) -> tuple[str, str]:
        """The name of the block that it stands in, and its own name there."""
        words = self.name.split(".")
        end = max(place for place, word in enumerate(words) if word.isdigit()) + 1
        return ".".join(words[:end]), ".".join(words[end:])


@dataclass(frozen=True)
class Said:
    """The answer of one router."""

    router: nn.Module
    logits: Tensor
    """`[P, E]`, with gradient."""
    weights: Tensor
    """`[P, k]` of the experts."""
    experts: Tensor
    """`[P, k]` int64: the router's own choice, also where another one is forced on it."""

    def refuse_other_weights(self) -> None:
        """Refuse, with a ValueError, a router that weighs its experts in another way than by the softmax of its logits."""
        tolerance = TOLERANCE if self.weights.element_size() >= 4 else HALF_TOLERANCE
        with torch.no_grad():
            distances = (weights_of(self.router, self.logits, self.experts) - self.weights).abs()
            found = distances.max() if distances.numel() else torch.zeros(())
        if not found <= tolerance:
            raise ValueError(
                f"{type(self.router).__name__} weighs its experts in another way than by the softmax of its logits (weights differ "
                f"by {float(found):.2g}): RouterBalance and routing replay do not know how; RoutedTokenRatio and RoutedSequenceRatio only "
                "count"
            )


def softmax(logits: Tensor) -> Tensor:
    """`[P, E]` probabilities of logits, in float32 or their own type if that is wider."""
    return logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def routers_of(trunk: nn.Module) -> list[Router]:
    """The routers of a trunk, block by block; a ValueError if it has none of a kind that is known here."""
    named = (getattr(module, "_can_record_outputs", None) or {} for module in trunk.modules())
    recorder = next((found["router_logits"] for found in named if "router_logits" in found), None)
    kind = getattr(recorder, "target_class", recorder)
    routers = [Router(name, module) for name, module in trunk.named_modules() if kind is not None and isinstance(module, kind)]
    if not routers:
        raise ValueError(
            f"{type(trunk).__name__} is no mixture of experts whose routers transformers names: train one, such as {TRIED}, or leave out "
            "the parts of lightrl-moe"
        )
    return routers


def refuse_unknown(router: nn.Module, answer: object) -> None:
    """Refuse, with a ValueError, a router whose answer is none of logits, weights and experts."""
    known = isinstance(answer, tuple) and len(answer) == 3 and all(isinstance(part, Tensor) for part in answer)
    if not known or answer[2].is_floating_point() or answer[1].shape != answer[2].shape:  # type: ignore[index]
        raise ValueError(f"{type(router).__name__} does not give logits, weights and experts of each token, as the routers of {TRIED} do")


def weights_of(router: Any, logits: Tensor, experts: Tensor) -> Tensor:
    """`[P, k]`: what each of the chosen experts `[P, k]` counts, with the gradient of the logits `[P, E]`."""
    chosen = softmax(logits).gather(-1, experts)
    # Mixtral has no such attribute, and always divides
    return chosen / chosen.sum(-1, keepdim=True) if getattr(router, "norm_topk_prob", True) else chosen


@contextmanager
def heard(trunk: nn.Module) -> Iterator[list[Said]]:
    """Within, the trunk runs once; afterwards the answers of its routers, which must be known here, are there, block by block."""
    said: list[Said] = []
    # in front of hooks that change the answer
    hooks = [router.module.register_forward_hook(partial(_hear, said), prepend=True) for router in routers_of(trunk)]
    try:
        yield said
    finally:
        for hook in hooks:
            hook.remove()


def _hear(said: list[Said], router: nn.Module, args: object, answer: Any) -> None:
    refuse_unknown(router, answer)
    said.append(Said(router, *answer))


def in_its_own_type(router: nn.Module, args: object, answer: Any) -> Any:
    """A hook for a policy in float64: weights in float64, which transformers rounds to float32."""
    refuse_unknown(router, answer)
    logits, _, experts = answer
    return logits, weights_of(router, logits, experts), experts
