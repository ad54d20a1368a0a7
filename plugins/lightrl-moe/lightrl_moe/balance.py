"""The auxiliary loss that keeps experts evenly used, with their shares counted over a whole optimizer step and all ranks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn.functional import pad

from lightrl import Aggregation, LossTerm, Minibatch, Output, PolicyOutput, TrainingBatch, TrunkOutput, WithStatistics
from lightrl_moe.routers import heard, softmax
from lightrl_moe.routes import Routes

LOAD = "expert_load"


class Balance(TrunkOutput):
    """How much of a token's router probability goes to experts that are busy.

    b_t = (E / layers) sum over layers and experts of f_e p_e(t), f_e the share of all choices of the step that fell on the expert.
    """

    name = "router_balance"

    def __init__(self) -> None:
        self._shares: Tensor | None = None
        self._checked = False

    @property
    def shares(self) -> Tensor | None:
        """`[layers, E]`, or fewer experts where the last ones were never chosen; None before the first step."""
        return self._shares

    @shares.setter
    def shares(self, shares: Tensor) -> None:
        self._shares = shares

    @contextmanager
    def listen(self, trunk: nn.Module) -> Iterator[Callable[[], Tensor]]:
        """See `TrunkOutput.listen`; 0 while no shares are known."""
        with heard(trunk) as said:

            def found() -> Tensor:
                # once: a device is waited for
                for router in () if self._checked else said:
                    router.refuse_other_weights()
                self._checked = True
                likely = torch.stack([softmax(router.logits) for router in said], 1)
                if self._shares is None:
                    return likely.new_zeros(len(likely))
                layers, experts = likely.shape[1:]
                shares = pad(self._shares, (0, experts - self._shares.shape[1])).to(likely, non_blocking=True)
                # no product of matrices, which autocast would round
                return (likely * shares).sum((1, 2)) * (experts / layers)

            yield found


class RouterBalance(LossTerm):
    """The auxiliary loss of routers: tokens are sent to all experts alike.

    loss = mean over layers of E sum_e f_e P_e, with f_e the share of all choices of an expert that fell on e, and P_e the mean probability
    of e, both over the sampled tokens of the optimizer step and all ranks. The gradient flows through P alone; 1 where experts are evenly
    used. The function of transformers is computed for each micro-batch by itself, over all layers as if they were one, and is k times as
    large.

    Source: Fedus et al. 2021 (Switch Transformer), arXiv:2101.03961, eqs. 4 to 6, for each choice of a token as in Dai et al. 2024
    (DeepSeekMoE), arXiv:2401.06066, eqs. 12 to 14.
    """

    gives = frozenset({LOAD})

    def __init__(self, coefficient: Annotated[float, Ge(0), Le(1e15)] = 0.001, aggregation: Aggregation | None = None) -> None:
        """
        Args:
            coefficient: weight of the term in the loss; 0 switches it off.
            aggregation: what a token weighs in P; null: every token the same.
        """
        super().__init__(coefficient, aggregation)
        self._balance = Balance()

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (Routes(), self._balance) if self.coefficient else ()

    def prepare(self, minibatch: Minibatch) -> dict[str, Tensor]:
        """The mean share of all choices that fell on each token's experts. The shares are kept for the losses of the step."""
        routes, mask = minibatch.output.needed(Routes.name).long(), minibatch.rows.response_mask
        layers = routes.shape[2]
        # a rank may have no token
        experts = max(minibatch.ranks.gather(int(routes[mask].amax()) + 1 if mask.any() else 1))
        place = routes[mask].transpose(1, 2).flatten(0, 1) + experts * torch.arange(layers).to(routes)
        counts = minibatch.ranks.total(torch.bincount(place.flatten(), minlength=layers * experts).double()).view(layers, experts)
        self._balance.shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
        layer = torch.arange(layers, device=routes.device)[:, None]
        load = self._balance.shares[layer, routes.clamp(max=experts - 1)].mean((2, 3))
        return {LOAD: torch.where(mask, load, 0.0).to(minibatch.output.logprobs)}

    def weights(self, experience: TrainingBatch) -> Tensor:
        return experience.response_mask.to(experience.token_weight)

    def loss(self, experience: TrainingBatch, output: PolicyOutput) -> Tensor:
        found, shares = output.needed(Balance.name), self._balance.shares
        largest = {} if shares is None else {"router/largest_share": found.detach().new_full((len(found),), float(shares.max()))}
        return WithStatistics(found, largest)  # type: ignore[return-value]
