"""f-DPO (Wang et al. 2023, arXiv:2309.16240): other divergences than the reverse KL hold the policy to the reference."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from lightrl import Likelihood
from lightrl_preference.dpo import DPO

LARGEST_EXPONENT = 80.0
"""In nats; e^80 is a float32 and a bfloat16. TRL holds exponents at the largest that the type can hold, about 88."""


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
