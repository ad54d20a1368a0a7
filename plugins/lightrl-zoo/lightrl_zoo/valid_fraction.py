"""GPG's sampler: prompts without a signal are replaced until enough of the batch has one."""

from collections.abc import Sequence

import torch

from lightrl import Collection, Sampler, ScoredRollout, deciding_reward, group_statistics, metric_of


class ValidFractionSampler(Sampler):
    """Replaces groups whose rewards are all equal until a fraction of the batch has a signal.

    The batch stays full: what is left without a signal after the last round is kept, and `GroupCenteredScaled` makes up for it.

    Source: Chu et al. 2025 (GPG), arXiv:2504.02546, section 3.
    """

    zero_variance = "replace"

    def __init__(self, group_size: int = 8, least: float = 0.6, max_rounds: int = 10, metric: str | None = None) -> None:
        """
        Args:
            group_size: completions per prompt; at least 2.
            least: fraction of the groups of all ranks that must have a signal, beta_th; in (0, 1].
            max_rounds: draws per rollout; after the last the batch is taken as it is, and `sampling/valid_fraction` says so. At least 1.
            metric: name of the raw reward that decides; null: the only one.

        Raises:
            ValueError: an argument outside its range.
        """
        if group_size < 2 or not 0 < least <= 1 or max_rounds < 1:
            raise ValueError(
                "ValidFractionSampler needs group_size >= 2, 0 < least <= 1 and max_rounds >= 1, "
                f"got group_size={group_size}, least={least}, max_rounds={max_rounds}"
            )
        self.group_size, self.least, self.max_rounds, self.metric = group_size, least, max_rounds, metric

    def check(self, rewards: Sequence[str]) -> None:
        """See `Sampler.check`: `metric` names one reward."""
        deciding_reward(rewards, self.metric)

    def collect(self, collection: Collection) -> ScoredRollout:
        """See `Sampler.collect`.

        Raises:
            ValueError: `metric` does not name one reward.
        """
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
