"""AOT (Melnyk et al. 2024, arXiv:2406.05882): compares distributions over the step, the likeliest with the likeliest, not pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.dpo import DPO


class AOT(DPO):
    """Alignment by optimal transport on pairs: sorted margins of the policy are to exceed sorted margins of the reference.

    loss = (1 / N) sum_i l(beta (m_(i) - m_ref(i))), with m = log pi(y+ | x) - log pi(y- | x), m_ref the same of the reference, (i) the
    i-th of the step and of all ranks by size, each sorted by itself, and l that of `DPO`. The implicit reward is DPO's.

    Source: Melnyk et al. 2024, arXiv:2406.05882, the paired form; TRL's `aot`, which sorts within a micro-batch.
    """

    needs_step = True

    def from_step(self, chosen: Likelihood, rejected: Likelihood) -> dict[str, Tensor]:
        """`anchor`: for each pair the reference's margin of the same rank."""
        margins = chosen.logprob - rejected.logprob
        # log pi less the log-ratio is log pi_ref
        return {"anchor": _at_ranks_of(margins, margins - (chosen.log_ratio - rejected.log_ratio))}

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return self.of_margin(self.beta * (chosen.logprob - rejected.logprob - chosen.prepared["anchor"]))


class AOTUnpaired(DPO):
    """Alignment by optimal transport without pairs: sorted log-ratios of better completions are to exceed those of worse ones.

    loss = (1 / N) sum_i l(beta (u_(i) - v_(i))), with u and v the log-ratios log pi(y | x) - log pi_ref(y | x) of the better and of the
    worse completions, (i) the i-th of the step and of all ranks by size, each sorted by itself, and l that of `DPO`. Which better
    completion stands beside which worse one says nothing. The implicit reward is DPO's.

    Source: Melnyk et al. 2024, arXiv:2406.05882, the unpaired form; TRL's `aot_unpaired`, which sorts within a micro-batch.
    """

    needs_step = True

    def from_step(self, chosen: Likelihood, rejected: Likelihood) -> dict[str, Tensor]:
        """`worse`: for each better completion the worse one of the same rank; `better`: the reverse."""
        better, worse = chosen.log_ratio, rejected.log_ratio
        return {"worse": _at_ranks_of(better, worse), "better": _at_ranks_of(worse, better)}

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        upper = self.of_margin(self.beta * (chosen.log_ratio - chosen.prepared["worse"]))
        lower = self.of_margin(self.beta * (chosen.prepared["better"] - rejected.log_ratio))
        # both have the sum that is wanted, and each the gradient of one side
        return upper + lower - lower.detach()


def _at_ranks_of(values: Tensor, others: Tensor) -> Tensor:
    """`[n]` for each value the one of `others` that has the same rank, without gradient."""
    found = torch.empty_like(others)
    found[values.detach().argsort(stable=True)] = others.detach().sort().values
    return found
