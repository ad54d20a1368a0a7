"""The advantage and the sampler of GPG (Chu et al. 2025, arXiv:2504.02546), which make up for groups without a signal."""

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le

from lightrl import (
    Advantage,
    Advantages,
    Collection,
    Experience,
    Sampler,
    ScoredRollout,
    broadcast_to_tokens,
    deciding_reward,
    group_statistics,
    metric_of,
)


class GroupCenteredScaled(Advantage):
    """Reward minus the mean of its group, times the inverse share of rows in groups with a signal.

    A_i = alpha (R_i - mean_g(R)), alpha = B / (B - M), B the scorable rows of all ranks and M those in groups whose rewards are
    all equal; 0 where no group has a signal.

    Source: Chu et al. 2025 (GPG), arXiv:2504.02546, section 3, with F_norm = 1.
    """

    compares = True

    def compute(self, experience: Experience) -> Advantages:
        statistics = group_statistics(experience.rewards, experience.group, experience.scorable)
        alive = experience.scorable & ~statistics.zero_variance
        counted, with_signal = experience.ranks.total(torch.stack([experience.scorable.sum(), alive.sum()]).double())
        alpha = counted / with_signal.clamp(min=1)
        centred = torch.where(statistics.zero_variance, 0.0, alpha * (experience.rewards.double() - statistics.mean))
        return Advantages(broadcast_to_tokens(centred, experience), statistics={"gpg/alpha": alpha.expand(len(experience))})


class ValidFractionSampler(Sampler):
    """Replaces groups whose rewards are all equal until a fraction of the batch has a signal.

    The batch stays full: what is left without a signal after the last round is kept, and `GroupCenteredScaled` makes up for it.

    Source: Chu et al. 2025 (GPG), arXiv:2504.02546, section 3.
    """

    zero_variance = "replace"

    def __init__(
        self,
        group_size: Annotated[int, Ge(2)] = 8,
        least: Annotated[float, Gt(0), Le(1)] = 0.6,
        max_rounds: Annotated[int, Ge(1)] = 10,
        metric: str | None = None,
    ) -> None:
        """
        Args:
            group_size: completions per prompt; at least 2.
            least: fraction of the groups of all ranks that must have a signal, beta_th; in (0, 1].
            max_rounds: draws per rollout; after the last the batch is taken as it is, and `sampling/valid_fraction` says so. At least 1.
            metric: name of the raw reward that decides; null: the only one.
        """
        self.group_size, self.least, self.max_rounds, self.metric = group_size, least, max_rounds, metric

    def check(self, rewards: Sequence[str]) -> None:
        """See `Sampler.check`: `metric` names one reward."""
        deciding_reward(rewards, self.metric)

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`. ValueError: `metric` does not name one reward."""
        wanted, missing = collection.total(collection.prompts), collection.prompts
        kept, fraction, rounds = [], 0.0, 0
        while fraction < self.least and rounds < self.max_rounds:
            drawn = collection.score(collection.rollout(collection.draw(missing), self.group_size))
            zero_variance = self._zero_variance(drawn)
            kept.append(drawn.select((~zero_variance).nonzero()[:, 0]))
            missing, rounds = int(zero_variance.sum()) // self.group_size, rounds + 1
            fraction = 1 - collection.total(missing) / wanted
        collection.report("sampling/rounds", rounds, "max")
        collection.report("sampling/valid_fraction", fraction, "mean")
        return ScoredRollout.concat([*kept, drawn.select(zero_variance.nonzero()[:, 0])])

    def _zero_variance(self, scored: ScoredRollout) -> torch.Tensor:
        rewards = metric_of(scored, self.metric)
        return group_statistics(rewards, scored.group, scored.scorable & ~rewards.isnan()).zero_variance
