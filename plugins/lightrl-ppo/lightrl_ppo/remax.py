"""ReMax (Li et al. 2023, arXiv:2310.10505): the score of the greedy completion is the baseline."""

import torch
from torch import Tensor

from lightrl import Collection, Experience, GroupSampler, ScoredRollout
from lightrl_ppo.baselines import CentredReturn
from lightrl_ppo.reinforce import REINFORCE

GREEDY = "greedy_reward"
"""Name under which the sampler leaves the baseline."""


class GreedyBaselineSampler(GroupSampler):
    """Has each prompt completed greedily besides, and remembers what that scored; nothing is learnt from the greedy rows."""

    gives_extras = frozenset({GREEDY})

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

    needs_extras = frozenset({GREEDY})
    against = "the greedy completion"

    def baseline_of(self, experience: Experience, first: Tensor) -> Tensor:
        """See `CentredReturn.baseline_of`.

        Raises:
            ValueError: the sampler left no greedy reward.
        """
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
