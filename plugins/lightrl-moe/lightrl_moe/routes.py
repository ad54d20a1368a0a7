"""Routes: the experts that each token was sent to, forced on the routers where they are replayed, and the ratios that count them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lightrl import SequenceRatio, StepPart, TokenRatio, TrunkOutput, WithStatistics
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
        """See `TrunkOutput.listen`. From then on routers choose the experts of `old_routes` where these travel with the tokens."""
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
    """
    for column, router in enumerate(routers_of(trunk)):
        if "awaits" not in vars(router.module):
            vars(router.module).update(awaits=False, checked=False)
            block, name = router.block
            held = trunk.get_submodule(block)
            held.register_forward_pre_hook(partial(_await, name), with_kwargs=True)
            for child in held.children():
                child.register_forward_pre_hook(partial(_tell, router.module, column), with_kwargs=True)
            router.module.register_forward_hook(_obey)


def _await(name: str, block: nn.Module, args: object, arguments: dict[str, Any]) -> None:
    """A hook that notes at the router of a block, before the block runs, whether its experts will be given."""
    vars(block.get_submodule(name)).update(told=None, awaits=OLD_ROUTES in arguments)


def _tell(router: nn.Module, column: int, module: nn.Module, args: object, arguments: dict[str, Any]) -> None:
    """A hook that tells a router its column of the routes, when they reach a module that runs before it."""
    if OLD_ROUTES in arguments:
        vars(router)["told"] = arguments[OLD_ROUTES][:, column].long()


def _obey(router: nn.Module, args: object, answer: Any) -> Any:
    """A hook that changes the answer of a router whose experts were given."""
    notes = vars(router)
    told: Tensor | None = notes.pop("told", None)
    if told is None:
        if notes["awaits"]:
            raise ValueError(
                f"the blocks around {type(router).__name__} do not hand on what travels with the tokens: its routes cannot be replayed"
            )
        return answer
    refuse_unknown(router, answer)
    logits, weights, experts = answer
    if not notes["checked"]:
        Said(router, logits, weights, experts).refuse_other_weights()
        notes["checked"] = True
    return logits, weights_of(router, logits, told).to(weights.dtype), told


class _Routed(StepPart):
    """Base of the ratios of mixtures: the routes before the first step on a rollout, and those of now."""

    outputs = old_outputs = rollout_outputs = (Routes(),)

    def rerouted(self) -> dict[str, Tensor]:
        """The statistics of a micro-batch; those of the rollout only where its engine has recorded routes."""
        old, sampled = self.extra(OLD_ROUTES), self.extras.get(ROLLOUT_ROUTES)
        since = rerouted(old, self.extra(Routes.name))
        before = {} if sampled is None else rerouted(sampled, old)
        return since | {f"{name}_in_rollout": share for name, share in before.items()}


class RoutedTokenRatio(_Routed, TokenRatio):
    """One ratio per token, which also counts the tokens that the new policy routes differently.

    log r_t = log pi(o_t) - log pi_old(o_t). `rerouted/tokens`: the share of tokens that some layer sends to other experts than the policy
    before the first step on the rollout did; `rerouted/experts`: the share of all choices of an expert that have changed. The same of the
    engine while it sampled and that policy: `rerouted/tokens_in_rollout` and `rerouted/experts_in_rollout`, if the engine records them.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, section 5.3.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor | WithStatistics:  # type: ignore[override]
        return WithStatistics(super().log_ratio(logprobs, old_logprobs, mask), self.rerouted())


class RoutedSequenceRatio(_Routed, SequenceRatio):
    """One ratio per row, the geometric mean of its token ratios, which also counts the tokens that the new policy routes differently.

    log s = (1/L) sum_t (log pi(o_t) - log pi_old(o_t)); statistics as `RoutedTokenRatio`.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7 and section 5.3.
    """

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor | WithStatistics:  # type: ignore[override]
        return WithStatistics(super().log_ratio(logprobs, old_logprobs, mask), self.rerouted())


class ReplayedTokenRatio(RoutedTokenRatio):
    """Routing replay: the new policy sends every token, prompts included, to the experts that the old one sent it to.

    log r_t = log pi(o_t | routes of old) - log pi_old(o_t). The weights of these experts are those of now, with their gradient. All
    terms of the loss see the policy with these routes. The statistics say what its routers would have chosen.

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, section 5.3.
    """

    steers = frozenset({OLD_ROUTES})


class ReplayedSequenceRatio(RoutedSequenceRatio):
    """Routing replay with one ratio per row; see `ReplayedTokenRatio`.

    log s = (1/L) sum_t (log pi(o_t | routes of old) - log pi_old(o_t)).

    Source: Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7 and section 5.3.
    """

    steers = frozenset({OLD_ROUTES})


def rerouted(old: Tensor, new: Tensor) -> dict[str, Tensor]:
    """The share of tokens that some layer sends to other experts, and of choices that are others, `[n, L]` each, of `[n, L, layers, k]`."""
    moved = ~(new[..., :, None] == old[..., None, :]).any(-1)
    return {"rerouted/tokens": moved.flatten(2).any(-1).double(), "rerouted/experts": moved.flatten(2).double().mean(-1)}
