"""DPO (Rafailov et al. 2023, arXiv:2305.18290) and the objectives that change one thing of it; the bases of objectives on pairs."""

import math
from abc import abstractmethod
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from lightrl import Likelihood, Objective, PairObjective

LARGEST_EXPONENT = 80.0
"""In nats; e^80 is a float32 and a bfloat16. TRL holds exponents at the largest that the type can hold, about 88."""


class MarginObjective(PairObjective):
    """loss = f(reward of the better completion - reward of the worse one)."""

    def loss(self, chosen: Likelihood, rejected: Likelihood) -> Tensor:
        return self.of_margin(self.reward(chosen) - self.reward(rejected))

    @abstractmethod
    def of_margin(self, margin: Tensor) -> Tensor:
        """`[n]` losses of `[n]` differences."""


class ImplicitReward(Objective):
    """reward(y) = beta (log pi(y | x) - log pi_ref(y | x))."""

    needs = frozenset({"ref_logprobs"})

    def __init__(self, beta: Annotated[float, Gt(0)] = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
        """
        self.beta = beta

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.log_ratio


class DPO(ImplicitReward, MarginObjective):
    """Direct preference optimisation: the policy as its own reward model.

    loss = -(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h), with h = log-ratio(y+) - log-ratio(y-) and
    log-ratio(y) = log pi(y | x) - log pi_ref(y | x), summed over the tokens of the completion. e = 0 is DPO; e > 0 is cDPO,
    which takes a share e of the pairs to be labelled the wrong way round. The implicit reward is beta log-ratio(y).

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; Mitchell 2023, "A note on DPO with noisy preferences", eq. 3.
    """

    def __init__(self, beta: Annotated[float, Gt(0)] = 0.1, label_smoothing: Annotated[float, Ge(0), Lt(0.5)] = 0.0) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the share of pairs taken to be labelled the wrong way round; in [0, 0.5).
        """
        super().__init__(beta)
        self.label_smoothing = label_smoothing

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong = -F.logsigmoid(margin), -F.logsigmoid(-margin)
        return (1 - self.label_smoothing) * right + self.label_smoothing * wrong


class ReferenceFreeDPO(DPO):
    """DPO with a uniform reference, so that none is held in memory.

    loss as in `DPO`, with h = log pi(y+ | x) - log pi(y- | x). The implicit reward is beta log pi(y | x).

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7 with pi_ref constant; Xu et al. 2024 (CPO), arXiv:2401.08417, eq. 3.
    """

    needs = frozenset[str]()

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.logprob


class RobustDPO(DPO):
    """DPO with a loss whose mean over flipped labels is DPO's on true ones.

    loss = ((1 - e) l(h) - e l(-h)) / (1 - 2 e), with l(h) = -log sigmoid(beta h); it may be negative.

    Source: Chowdhury et al. 2024, arXiv:2403.00409, section 3.
    """

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.1) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the share of pairs that are labelled the wrong way round; in [0, 0.5).
        """
        super().__init__(beta, label_smoothing)

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong, e = -F.logsigmoid(margin), -F.logsigmoid(-margin), self.label_smoothing
        return ((1 - e) * right - e * wrong) / (1 - 2 * e)


class LengthNormalizedDPO(DPO):
    """DPO with log-ratios per token, so that a long completion is not preferred for its length.

    loss as in `DPO`, with h = log-ratio(y+) / |y+| - log-ratio(y-) / |y-|. The implicit reward is beta log-ratio(y) / |y|.

    Source: Lambert et al. 2024 (Tulu 3), arXiv:2411.15124, eq. 6, with its beta of section 5.
    """

    def __init__(self, beta: float = 5.0, label_smoothing: float = 0.0) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference, per token: of the order of DPO's times a length; > 0.
            label_smoothing: e, the share of pairs taken to be labelled the wrong way round; in [0, 0.5).
        """
        super().__init__(beta, label_smoothing)

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * completions.log_ratio / completions.tokens


class ForwardKLDPO(DPO):
    """DPO that holds the policy to the reference by the forward KL, KL(pi_ref || pi).

    loss as in `DPO`, with h = 1 / u(y-) - 1 / u(y+) and u(y) = pi(y | x) / pi_ref(y | x). The implicit reward is -beta / u(y):
    unbounded below, so that no completion of the reference is given up. Where -log u is above 80 nats it is held there,
    without a gradient.

    Source: Wang et al. 2023, arXiv:2309.16240, its table of f-divergences: f(u) = -log u, f'(u) = -1 / u.
    """

    def reward(self, completions: Likelihood) -> Tensor:
        return -self.beta * (-completions.log_ratio).clamp(max=LARGEST_EXPONENT).exp()


class JensenShannonDPO(DPO):
    """DPO that holds the policy to the reference by the Jensen-Shannon divergence.

    loss as in `DPO`, with h = log(2 u(y+) / (1 + u(y+))) - log(2 u(y-) / (1 + u(y-))) and u(y) = pi(y | x) / pi_ref(y | x). The
    implicit reward is beta log(2 u(y) / (1 + u(y))), at most beta log 2.

    Source: Wang et al. 2023, arXiv:2309.16240, its table of f-divergences: f(u) = u log u - (u + 1) log((u + 1) / 2),
    f'(u) = log(2 u / (1 + u)).
    """

    def reward(self, completions: Likelihood) -> Tensor:
        return self.beta * (math.log(2) + F.logsigmoid(completions.log_ratio))


class EXO(DPO):
    """Efficient exact optimisation on pairs: the reverse KL from the policy's preference to the labels, which are smoothed.

    loss = q log(q / (1 - e)) + (1 - q) log((1 - q) / e), with q = sigmoid(beta h) and h = log-ratio(y+) - log-ratio(y-). It is 0
    where the policy prefers y+ with probability 1 - e. DPO with the same e is the KL in the other direction, but for a constant. The
    implicit reward is beta log-ratio(y).

    Source: Ji et al. 2024, arXiv:2402.00856, eq. 16; e as in TRL, which takes 1e-3 where the paper states none.
    """

    def __init__(self, beta: float = 0.1, label_smoothing: Annotated[float, Gt(0), Lt(0.5)] = 1e-3) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            label_smoothing: e, the probability of the worse completion under the labels; in (0, 0.5): the KL to hard labels is infinite.
        """
        super().__init__(beta, label_smoothing)

    def of_margin(self, margin: Tensor) -> Tensor:
        right, wrong, e = F.logsigmoid(margin), F.logsigmoid(-margin), self.label_smoothing
        return torch.sigmoid(margin) * (right - math.log1p(-e)) + torch.sigmoid(-margin) * (wrong - math.log(e))


class DiscoPOP(DPO):
    """Log-ratio modulated loss: DPO's for pairs in the wrong order, an exponential one for those in the right order.

    loss = (1 - m) (-log sigmoid(beta h)) + m exp(-beta h), with m = sigmoid(beta h / tau) and h = log-ratio(y+) - log-ratio(y-).
    The implicit reward is beta log-ratio(y). The loss is not convex: around h = 0 it rises with h.

    Source: Lu et al. 2024, arXiv:2406.08414, eq. 5; beta of appendix B.1, tau of appendix E.
    """

    exceptions = {
        "where the policy is the reference, it makes good completions likelier and no bad one": "the loss rises with the margin around "
        "0, as the paper says of it: at the published tau its slope there is 0.78 beta"
    }

    def __init__(self, beta: float = 0.05, tau: Annotated[float, Gt(0), Le(1)] = 0.05) -> None:
        """
        Args:
            beta: how strongly the policy is held to the reference; > 0.
            tau: over which difference of rewards the one loss becomes the other; in (0, 1]: with more, the loss of pairs in the wrong
                order explodes.
        """
        super().__init__(beta)
        self.tau = tau

    def of_margin(self, margin: Tensor) -> Tensor:
        # m exp(-margin) in one exponent, which stays finite for pairs far in the wrong order
        exponential = (F.logsigmoid(margin / self.tau) - margin).exp()
        return -F.logsigmoid(margin) * torch.sigmoid(-margin / self.tau) + exponential


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
