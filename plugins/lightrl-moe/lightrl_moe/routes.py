"""Routes: the experts that each token was sent to, told by the routers and, where they are replayed, forced on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lightrl import TrunkOutput
from lightrl_moe.routers import Said, heard, refuse_unknown, routers_of, weights_of

OLD_ROUTES = "old_routes"
"""The extra that holds the routes of the policy before the first step on a rollout."""
ROLLOUT_ROUTES = "rollout_routes"
"""The extra that holds the routes of the engine while it sampled, if it has recorded them."""


class Routes(TrunkOutput):
    """The experts that each token was sent to, `[n, L, layers, k]` int16, by each router's own choice.

    Those of token t are found at the position that predicts it.
    """

    name = "routes"

    @contextmanager
    def listen(self, trunk: nn.Module) -> Iterator[Callable[[], Tensor]]:
        """See `TrunkOutput.listen`. From then on the trunk's routers do as they are told where `old_routes` travel with the tokens."""
        obey(trunk)
        with heard(trunk) as said:
            yield lambda: torch.stack([router.experts for router in said], 1).to(torch.int16)

    def like(self, uniforms: Tensor) -> Tensor:
        """See `TrunkOutput.like`: two of four experts in each of two layers."""
        first = (4 * torch.stack([uniforms, (7 * uniforms) % 1], -1)).long().clamp(0, 3)
        return torch.stack([first, (first + 1) % 4], -1).to(torch.int16)


def obey(trunk: nn.Module) -> None:
    """Let the routers of a trunk choose the experts that travel with the tokens as `old_routes`, where they do.

    The routes reach the modules inside a block as arguments, also where the block is computed again in the backward pass, which the hooks
    of the block itself do not see.

    Args:
        trunk: of a causal LM; nothing is done a second time.

    Raises:
        ValueError: its routers are not known here.
    """
    for column, router in enumerate(routers_of(trunk)):
        block, name = router.block
        held = trunk.get_submodule(block)
        if not any(isinstance(hook, _Await) for hook in held._forward_pre_hooks.values()):
            held.register_forward_pre_hook(_Await(name), with_kwargs=True)
            for child in held.children():
                child.register_forward_pre_hook(_Tell(router.module, column), with_kwargs=True)
            router.module.register_forward_hook(_Obey())


class _Await:
    """Says to the router of a block, before the block runs, whether it will be told its experts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, block: nn.Module, args: object, arguments: dict[str, Any]) -> None:
        vars(block.get_submodule(self.name)).update(told=None, awaits=OLD_ROUTES in arguments)


class _Tell:
    """Tells a router its column of the routes, when they reach a module that runs before it."""

    def __init__(self, router: nn.Module, column: int) -> None:
        self.router, self.column = router, column

    def __call__(self, module: nn.Module, args: object, arguments: dict[str, Any]) -> None:
        if OLD_ROUTES in arguments:
            vars(self.router)["told"] = arguments[OLD_ROUTES][:, self.column].long()


class _Obey:
    """Changes the answer of a router that was told its experts."""

    def __init__(self) -> None:
        self.checked = False

    def __call__(self, router: nn.Module, args: object, answer: Any) -> Any:
        told: Tensor | None = vars(router).pop("told", None)
        if told is None:
            if vars(router).get("awaits"):
                raise ValueError(
                    f"the blocks around {type(router).__name__} do not hand on what travels with the tokens: its routes cannot be replayed"
                )
            return answer
        refuse_unknown(router, answer)
        logits, weights, experts = answer
        if not self.checked:
            Said(router, logits, weights, experts).refuse_other_weights()
            self.checked = True
        return logits, weights_of(router, logits, told).to(weights.dtype), told
