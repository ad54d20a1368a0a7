"""The collector of a run that learns from rollouts: a sampler draws prompts, has them completed and scored, and keeps or redraws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import refuse_missing_extras
from lightrl.parts.base import TrunkOutput
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reward import Reward
from lightrl.parts.sampler import Reduction
from lightrl.ranks import Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.rewards.scoring import Scoring
from lightrl.run_end import RunEndedError
from lightrl.training.evaluating.collector import Collector
from lightrl.training.evaluating.evaluator import report_episodes
from lightrl.training.online.policy_learner import PolicyLearner
from lightrl.training.online.predictions import old_from, said
from lightrl.training.online.rollouts_ahead import RolloutsAhead, check_ahead
from lightrl.training.reports.run_ledger import RunLedger
from lightrl.types import JSON, Prompt, Rollout, ScoredRollout

TRY_REWARDS = "Mend it and start again. `lightrl reward test` tries rewards on completions in a file, without a policy"
"""What to do about a reward that does not work at all."""


class RolloutCollector(Collector):
    """Makes the scored rollouts that a policy learns from, some of them while it learns."""

    learner: PolicyLearner
    rewards: RewardSet
    prompts_per_rollout: int
    """Prompts (groups) per rollout over all ranks."""
    ahead: RolloutsAhead
    """The rollouts that are made while the policy learns."""

    def plan(self, prompts_per_rollout: int, rollouts_ahead: int) -> None:
        """Settle the sizes; a ValueError if nothing could be learnt from such rollouts, or the engine cannot make them."""
        algorithm = self.learner.algorithm
        settle_rollouts(prompts_per_rollout, algorithm, self.engine, self.environment)
        check_ahead(rollouts_ahead, self.engine, algorithm)
        if self.rewards.rewards:
            algorithm.sampler.check(list(self.rewards.rewards))
        self.prompts_per_rollout = prompts_per_rollout
        self.ahead = RolloutsAhead(rollouts_ahead, self)

    def on_progress(self, progress: str) -> None:
        """Show how far the turns have come, unless the rollout is made while the policy learns."""
        if not self.ahead.ahead:
            super().on_progress(progress)

    def next_rollout(self) -> ScoredRollout:
        """The rollout that is next to be learnt from; with rollouts ahead a later one is begun, with the present weights."""
        self.update_engine()
        made = self.ahead.next()
        self.engine.rest()
        self.learner.ledger.merge(made.ledger)
        self.learner.ledger.add_report(made.age(self.learner.rollout, self.learner.steps))
        return made.scored

    def collect(self, ranks: Ranks, ledger: RunLedger) -> ScoredRollout:
        """Have the sampler make a rollout with the weights that the engine has."""
        return self.learner.algorithm.sampler.collect(RunCollection(self, ranks, ledger))

    @property
    def old_from(self) -> str:
        """Where the old log-probs come from; see `old_from`."""
        return old_from(self.learner.algorithm, self.engine, self.ahead.ahead, self.learner.compute_dtype)

    @property
    def said(self) -> str | None:
        """A sentence on whose log-probs are the old ones, if the precision has decided it."""
        return said(self.learner.algorithm, self.engine, self.ahead.ahead, self.learner.compute_dtype)

    def check(self) -> None:
        """Refuse a rollout that could not be made, scored or learnt from, before the first one is made."""
        trainer, prompts = self.learner.module.trainer, self.prompts_per_rollout
        algorithm, policy = self.learner.algorithm, self.learner.policy
        if prompts % trainer.world_size:
            raise ValueError(f"model.prompts_per_rollout is {prompts}, which {trainer.world_size} ranks cannot share evenly")
        if trainer.state.fn != "fit":
            return
        data = self.data
        columns = data.columns()
        self.rewards.check(columns, data.placed_prompts())
        self.environment.check(frozenset(columns))
        if algorithm.critic is not None:
            algorithm.critic.check(policy)
        for reference in algorithm.references.values():
            reference.check(policy)
        for output in (algorithm.outputs | algorithm.old_outputs | algorithm.rollout_outputs).values():
            if isinstance(output, TrunkOutput):
                # which refuses a trunk that it does not know
                with output.listen(policy.model.base_model):
                    pass
        there = data.sizes()["train"]
        if there is not None and prompts > there:
            rank_zero_warn(
                f"model.prompts_per_rollout is {prompts:,}, and there are {there:,} training prompts: each is drawn "
                f"{prompts / there:.3g} times per rollout"
            )


class RunCollection:
    """The `Collection` of one rollout: group numbers are unique within it, whatever the number of generate calls."""

    def __init__(self, collector: RolloutCollector, ranks: Ranks, ledger: RunLedger) -> None:
        self._data = data = collector.data
        self.prompts, self.size, self.rank = collector.prompts_per_rollout // collector.learner.adapter.world_size, data.size, data.rank
        self._rollouts, self._rewards, self._ranks, self._ledger = collector.rollouts, collector.rewards, ranks, ledger
        self._groups = 0

    def draw(self, n: int) -> list[Prompt]:
        """The next n prompts of this rank."""
        return self._data.draw(self._ranks.gather(n))

    def prompt(self, name: str) -> Prompt:
        """The training prompt with this id."""
        return self._data.prompt(name)

    def gather(self, value: JSON) -> list[JSON]:
        """The value of every rank, in the order of ranks."""
        return self._ranks.gather(value)

    def rollout(self, prompts: Sequence[Prompt], n: int, temperature: float | None = None) -> Rollout:
        """n completions for each prompt."""
        sampling = None if temperature is None else replace(self._rollouts.engine.sampling, temperature=temperature)
        with self._ledger.phase("rollout"):
            rollout = self._rollouts.rollout(prompts, n, sampling)
        self._ledger.add_report(report_episodes(rollout, self._rollouts.environment))
        for name, count in self._rollouts.engine.statistics().items():
            self._ledger.add(f"engine/{name}", count, reduce="sum")
        self._stop_together(self._rollouts.spent())
        return self._numbered(rollout, len(prompts))

    def given(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> Rollout:
        """Rows of completions that somebody else wrote."""
        return self._numbered(self._rollouts.given(prompts, completions), len(prompts))

    def score(self, rollout: Rollout) -> ScoredRollout:
        """The rollout with the answer of each reward."""
        return self._all_finished([self._begin(rollout)])

    def rollout_and_score(self, prompts: Sequence[Prompt], n: int, slices: int = 1) -> ScoredRollout:
        """n scored completions for each prompt; while one slice is completed, the rewards of those before are at work."""
        # samples of a prompt that was drawn twice are numbered within one call of the engine
        alone = len({prompt.id for prompt in prompts}) < len(prompts)
        size = len(prompts) if alone else -(-len(prompts) // slices)
        scorings = list[Scoring]()
        for i in range(slices):
            # every slice draws its random numbers as a part of the same call
            with self._rollouts.aside() if i < slices - 1 else nullcontext():
                scorings.append(self._begin(self.rollout(prompts[i * size : (i + 1) * size], n)))
        return self._all_finished(scorings)

    def _numbered(self, rollout: Rollout, groups: int) -> Rollout:
        rollout.group = rollout.group + self._groups
        self._groups += groups
        return rollout

    def _begin(self, rollout: Rollout) -> Scoring:
        with self._ledger.phase("reward"):
            return self._rewards.submit(rollout)

    def _all_finished(self, scorings: list[Scoring]) -> ScoredRollout:
        """Wait for the scores of all slices; a reward that fails alike on every row so far, on all ranks, stops them."""
        scored = ScoredRollout.concat([self._finished(scoring) for scoring in scorings])
        broken = self._rewards.broken()
        if self.total(bool(broken)):
            first, *others = self._ranks.gather(broken)
            for name, failure in first.items():
                if all(other.get(name) == failure for other in others):
                    raise RunEndedError(f"model.rewards.{name} failed on every row of its first rollout: {failure}\n{TRY_REWARDS}")
        for scoring in scorings:
            scoring.warn()
        return scored

    def _finished(self, scoring: Scoring) -> ScoredRollout:
        """Wait for the scores; failures beyond what a reward may have stop all ranks."""
        with self._ledger.phase("reward"):
            scored = scoring.result()
        self._ledger.add_all(scoring.statistics(), scored.response_mask)
        self._stop_together(self._rewards.spent())
        return scored

    def _stop_together(self, spent: str | None) -> None:
        if self.total(spent is not None):
            # every rank says why, since the messages of some may be lost when the first one ends
            elsewhere = next((complaint for complaint in self._ranks.gather(spent) if complaint is not None), None)
            raise RunEndedError(spent or f"on another rank, {elsewhere}")

    def reward(self, scored: ScoredRollout) -> Tensor:
        """`[N]`: the weighted sum of each row's rewards, NaN where the row is not scorable."""
        return self._rewards.row_rewards(scored)

    def report(self, name: str, value: Tensor | float, reduce: Reduction = "sum") -> None:
        """Log a number of this rank, or a tensor of them."""
        self._ledger.add(name, value, reduce=reduce, owner="Sampler")

    def total(self, value: float) -> float:
        """The sum of a number over ranks."""
        return float(self._ranks.total(torch.tensor([value], dtype=torch.float64))[0])


def refuse_no_rewards(algorithm: Algorithm, rewards: Mapping[str, Reward] | None, environment: Environment) -> bool:
    """Whether the policy learns from rewards; a ValueError if it does, and there are none."""
    wants = algorithm.needs_rewards
    if wants and not rewards and not environment.gives_rewards:
        raise ValueError("model.rewards is empty: name at least one reward, for example rewards: {correct: ExactMatch}")
    return wants


def settle_rollouts(prompts: int, algorithm: Algorithm, engine: RolloutEngine, environment: Environment) -> None:
    """Refuse rollouts from which nothing could be learnt, and tell the engine what parts read of its passes."""
    refuse_missing_extras(algorithm, environment)
    if not algorithm.sampler.samples_all and not isinstance(environment, SingleTurn):
        raise ValueError(
            f"{type(algorithm.sampler).__name__} has completions that somebody else wrote, which answer a prompt at once, and "
            f"{type(environment).__name__} plays episodes: leave model.environment out, or use another algorithm.sampler"
        )
    rows = algorithm.minibatch_of == "rows"
    if prompts * (algorithm.sampler.group_size if rows else 1) < algorithm.minibatches:
        raise ValueError(
            f"model.prompts_per_rollout is {prompts}{f' with {algorithm.sampler.group_size} completions each' if rows else ''}, but "
            f"algorithm.minibatches is {algorithm.minibatches}, and a minibatch has at least one {'row' if rows else 'whole group'}: raise "
            "the one or lower the other"
        )
    if engine.sampling.temperature == 0:
        raise ValueError("model.engine.temperature is 0, and a policy that never varies cannot learn from its rollouts; use 1.0")
    _refuse_stripped(algorithm, environment)
    tell_engine(algorithm, engine)


def _refuse_stripped(algorithm: Algorithm, environment: Environment) -> None:
    """Refuse parts that read or steer layers at every token, where turns read contexts that are no part of the row."""
    every = algorithm.outputs | algorithm.old_outputs | algorithm.rollout_outputs
    inside = [*algorithm.steers, *(name for name, output in every.items() if isinstance(output, TrunkOutput))]
    if environment.thoughts == "strip" and inside:
        raise ValueError(
            f"model.environment.thoughts is strip, and {type(algorithm).__name__} reads {', '.join(sorted(set(inside)))} from inside the "
            "layers, at tokens that no row has: use keep"
        )


def tell_engine(algorithm: Algorithm, engine: RolloutEngine) -> None:
    """Say what an engine is to record while it samples, before its first request; nothing if it records nothing or has not sampled all."""
    wanted = tuple(output for output in algorithm.rollout_outputs.values() if isinstance(output, TrunkOutput))
    records = engine.records and algorithm.sampler.samples_all
    engine.recorded = wanted if records else ()
    if wanted and not records:
        who = f"{type(algorithm.sampler).__name__} brings rows" if engine.records else f"{type(engine).__name__} samples rows"
        names = ", ".join(output.name for output in wanted)
        rank_zero_warn(f"{who} for which no engine records {names}: numbers that compare them are not there")
