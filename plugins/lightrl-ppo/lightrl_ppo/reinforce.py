"""REINFORCE (Williams 1992) with its baselines, and those of its kind that have another one: ReMax and RLOO."""

from abc import abstractmethod
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from lightrl import (
    Advantages,
    Algorithm,
    Collection,
    DiscountedReturn,
    Experience,
    GroupRelative,
    GroupSampler,
    ImportanceRatio,
    KLPenalty,
    LeaveOneOut,
    PolicyGradient,
    Ranks,
    ScoredRollout,
    SequenceMean,
    SequenceSum,
    SymmetricClip,
    moments,
)

GREEDY = "greedy_reward"
"""Name under which the sampler leaves the baseline."""


class CentredReturn(DiscountedReturn):
    """Returns minus a baseline per row.

    A_t = G_t - b_i on the response tokens of row i.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4.
    """

    @abstractmethod
    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        """`[N]`: b_i of each row; `first` is its return from its first response token on, `[N]` float64, NaN on rows that do not count."""

    def compute(self, experience: Experience) -> Advantages:
        returns = self.returns(experience)
        mask = experience.response_mask & experience.scorable[:, None]
        first = experience.first_sampled(returns)
        # a row without response tokens has its reward and no token to return it from
        first = torch.where(mask.any(1), first, experience.rewards).double().masked_fill(~experience.scorable, torch.nan)
        # in the precision of the returns, so that a return that equals its baseline gives exactly 0
        baseline = self.baseline_of(experience, first).to(returns.dtype)
        advantages = torch.where(mask, returns - baseline[:, None], 0.0)
        return Advantages(advantages, statistics={"baseline": torch.where(mask.any(1), baseline, torch.nan)})


class BatchCentered(CentredReturn):
    """Returns minus their mean over the rollout.

    A_t = G_t - mean_i(G of row i from its first token on), over the scorable rows of all ranks, the row itself included.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4.
    """

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        return torch.full_like(first, _mean(first, experience.ranks, otherwise=0.0))


class MovingAverageCentered(CentredReturn):
    """Returns minus a moving average over the rollouts before this one.

    A_t = G_t - b, then b <- decay b + (1 - decay) mean_i(G of row i); in the first rollout b is its own mean.

    Source: Williams 1992 (REINFORCE), Machine Learning 8, section 4 (reinforcement comparison).
    """

    def __init__(self, decay: Annotated[float, Ge(0), Lt(1)] = 0.9, gamma: float = 1.0) -> None:
        """
        Args:
            decay: share of the old average; in [0, 1).
            gamma: discount per token, in [0, 1].
        """
        super().__init__(gamma)
        self.decay = decay
        self._average: float | None = None
        self._next: float | None = None

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        now = _mean(first, experience.ranks, otherwise=self._average)
        before = now if self._average is None else self._average
        self._next = before if now is None or before is None else self.decay * before + (1 - self.decay) * now
        return torch.full_like(first, 0.0 if before is None else before)

    def commit(self) -> None:
        """Move the average, now that the steps have happened."""
        self._average = self._next

    def state_dict(self) -> dict[str, Any]:
        return {} if self._average is None else {"average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._average = state.get("average")


def _mean(values: Tensor, ranks: Ranks, otherwise: Any) -> Any:
    of_all = moments(values[~values.isnan()], ranks)
    return of_all.mean if of_all.count else otherwise


class REINFORCE(Algorithm):
    """The score function estimator with a baseline.

    J = 1/N sum_i sum_t (G_t - b) log pi(o_t), one optimizer step per rollout.

    Source: Williams 1992, Machine Learning 8.
    """

    best_for = "the plainest thing that works: one completion per prompt, no critic, one step per rollout"

    sampler = GroupSampler(group_size=1)
    advantage = BatchCentered()
    """The return and its baseline: DiscountedReturn (none), BatchCentered, MovingAverageCentered."""
    clip = PolicyGradient()
    """How far one update may go; PolicyGradient is for one step per rollout."""
    aggregation = SequenceSum()


class GreedyBaselineSampler(GroupSampler):
    """Has each prompt completed greedily besides, and remembers what that scored; nothing is learnt from the greedy rows."""

    gives = frozenset({GREEDY})

    def __init__(self, group_size: int = 1) -> None:
        """
        Args:
            group_size: sampled completions per prompt, without the greedy one; at least 1.
        """
        super().__init__(group_size)

    def collect(self, collection: Collection) -> ScoredRollout:
        prompts = collection.draw(collection.prompts)
        scored = collection.score(collection.rollout(prompts, self.group_size))
        greedy = collection.reward(collection.score(collection.rollout(prompts, 1, temperature=0.0)))
        baseline = greedy.repeat_interleave(self.group_size)
        scored.extras = {**scored.extras, GREEDY: baseline}
        # without a baseline there is no advantage
        scored.scorable = scored.scorable & ~baseline.isnan()
        return scored


class GreedyCentered(CentredReturn):
    """Returns minus the reward of the prompt's greedy completion.

    A_t = G_t - R(greedy completion of the same prompt); wants the sampler `GreedyBaselineSampler`.

    Source: Li et al. 2023 (ReMax), arXiv:2310.10505, algorithm 1.
    """

    needs = frozenset({GREEDY})

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        """See `CentredReturn.baseline_of`. ValueError: the sampler left no greedy reward."""
        if GREEDY not in experience.extras:
            raise ValueError("GreedyCentered needs the reward of a greedy completion of each prompt: set sampler to GreedyBaselineSampler")
        return torch.where(experience.scorable, experience.extras[GREEDY], 0.0)


class ReMax(REINFORCE):
    """REINFORCE with the greedy completion's reward as the baseline.

    Source: Li et al. 2023, arXiv:2310.10505.
    """

    best_for = "one completion per prompt with a baseline of its own; one greedy completion more to generate, none to train"

    sampler = GreedyBaselineSampler()
    """Chooses the completions that the policy learns from, and leaves the reward of the greedy one."""
    advantage = GreedyCentered()


class RLOO(GroupRelative):
    """REINFORCE leave-one-out: each completion compared with the mean of the others of its prompt.

    J = 1/N sum_i (R_i - mean of the others' R) sum_t log pi(o_t), with -beta sum_t k1 inside R; a completion is one action.

    Source: Ahmadian et al. 2024, arXiv:2402.14740, section 3.2; beta 0.03 (TL;DR) or 0.10 (HH).
    """

    best_for = "few completions per prompt and one step per rollout; unbiased, without a division by a deviation"

    sampler = GroupRelative.sampler.but(group_size=4)
    advantage = LeaveOneOut()
    clip = PolicyGradient()
    """How far one update may go; PolicyGradient is for one step per rollout."""
    aggregation = SequenceSum()
    kl = KLPenalty(estimator="k1", reward_coefficient=0.03)


class CompletionRatio(ImportanceRatio):
    """One ratio per row, the product of its token ratios.

    log s_i = sum_t (log pi(o_t) - log pi_old(o_t)) over the tokens that carry a loss: the probability of the whole completion, new
    against old. It leaves 1 faster the longer the completion is, while `SequenceRatio`, its L-th root, does not.

    Source: Ahmadian et al. 2024 (RLOO), arXiv:2402.14740, section 3.2: a completion is one action; TRL's `RLOOTrainer`.
    """

    row_constant = True

    def log_ratio(self, logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask, logprobs - old_logprobs, 0.0).sum(1, keepdim=True).expand_as(logprobs)


class ClippedRLOO(RLOO):
    """RLOO with PPO's clip on the ratio of the whole completion.

    J = 1/N sum_i min(s_i A_i, clip(s_i, 1 - epsilon, 1 + epsilon) A_i), A_i = R_i - mean of the others' R. At s_i = 1 its gradient is
    RLOO's.

    Source: TRL's `RLOOTrainer`, whose `epsilon` is 0.2; Schulman et al. 2017, arXiv:1707.06347, eq. 7, with a completion as the action.
    """

    best_for = "RLOO with several steps per rollout and short completions"

    ratio = CompletionRatio()
    clip = SymmetricClip(epsilon=0.2)
    """How far one update may go; 0.2 is soon reached by long completions, whose ratio is a product over all tokens."""
    aggregation = SequenceMean()
