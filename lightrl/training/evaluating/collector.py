"""The collector: an engine, an environment and rewards at work for one run; it makes scored rows of prompts."""

from __future__ import annotations

from typing import Any

from lightrl.data.prompt_data import PromptData
from lightrl.ops.agreement import Limits
from lightrl.parts.engine import RolloutEngine, SampledPolicy
from lightrl.parts.environment import Environment
from lightrl.rewards.reward_set import RewardSet
from lightrl.rollout.loop import LoopObserver, RolloutLoop
from lightrl.text.turn_encoder import TurnEncoder
from lightrl.training.evaluating.canary import Canary, mismatch
from lightrl.training.evaluating.evaluator import Evaluation, report_episodes, report_lengths, report_samples, sampling_of
from lightrl.training.evaluating.named_metrics import NamedMetrics, TextMetrics
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.training.setup.building import prompts_of
from lightrl.training.steps.learner import Learner
from lightrl.types import Prompt, Rollout, ScoredRollout


class Collector(LoopObserver):
    """Completes prompts with the policy of a learner, and scores the completions."""

    rewards: RewardSet | None
    """The rewards that score completions, if there are any."""

    def __init__(
        self, learner: Learner, engine: RolloutEngine, environment: Environment, rewards: RewardSet | None, evaluation: Evaluation
    ) -> None:
        """Without rewards held-out prompts are not completed."""
        self.learner, self.engine, self.environment, self.evaluation = learner, engine, environment, evaluation
        self.rewards = rewards
        self.rollouts = RolloutLoop(engine, environment, self)
        self.held_out = StatisticsLedger()
        """The numbers of the evaluation under way."""
        self.named_metrics: NamedMetrics[Any, Any] = TextMetrics(evaluation.metrics or {})
        """Get the rows of the evaluation under way."""
        self.samples: ScoredRollout | None = None
        """The first rows of the last evaluation."""
        self._canary = Canary()
        self._encoder: TurnEncoder | None = None

    @property
    def data(self) -> PromptData:
        """The prompts of this run; an error that says what to type if there are none."""
        return prompts_of(self.learner.module.trainer)

    def start(self) -> None:
        """Let engine, environment and rewards start the processes that they need."""
        self.rollouts.start()
        if self.rewards is not None:
            self.rewards.start()

    def close(self) -> None:
        """End the processes that engine, environment and rewards have started."""
        self.rollouts.close()
        if self.rewards is not None:
            self.rewards.close()

    def check_template(self, policy: SampledPolicy, talks: bool) -> None:
        """Raise ValueError for a chat template without an argument of the evaluation or, where prompts are messages, without the tools."""
        self._encoder = self.rollouts.encoder(policy, self.evaluation.chat_template_kwargs)
        if talks:
            self._encoder.check_tools()

    def update_engine(self) -> None:
        """Let the engine have the policy's present weights."""
        self.rollouts.update_weights(self.learner.weights(), self.learner.steps)

    @property
    def agreement_limits(self) -> Limits:
        """Limits on the differences between log-probs of engine and trainer that rounding explains."""
        return Limits.of(self.learner.compute_dtype, self.engine.logprob_tolerance)

    def on_progress(self, progress: str) -> None:
        """Show how far the turns of a rollout have come."""
        self.learner.ledger.show(f"rollout, {progress}")

    def on_answers(self, answers: Rollout) -> None:
        """Compare log-probs of an engine with weights of its own with the trainer's, after each update; if one differs, every rank ends."""
        learner = self.learner
        complaint = self._canary.look(answers, learner.policy, learner.device, self.agreement_limits)
        learner.ledger.add("engine/deviation", self._canary.agreement.largest, reduce="max")
        if complaints := [one for one in learner.adapter.gather(complaint) if one is not None]:
            raise mismatch(type(self.engine).__name__, learner.steps, complaints[0])

    def evaluate(self, prompts: list[Prompt]) -> ScoredRollout:
        """Complete and score held-out prompts; the random numbers of training are left where they were."""
        if self.rewards is None:
            raise ValueError("model.rewards is empty, so completions of the validation prompts cannot be scored: name a reward")
        self.learner.ledger.show("evaluating")
        self.update_engine()
        with self.rollouts.aside(self._encoder):
            sampling = sampling_of(self.evaluation, self.rollouts.engine.sampling)
            rollout = self.rollouts.rollout(prompts, self.evaluation.samples, sampling)
        return self._scored(rollout, self.rewards)

    def evaluated(self) -> dict[str, float]:
        """The numbers of the evaluation that is over, reduced over ranks; every rank calls it."""
        self.engine.rest()
        adapter = self.learner.adapter
        return self.held_out.reduce(adapter.gather) | self.named_metrics.compute(adapter)

    def _scored(self, rollout: Rollout, rewards: RewardSet) -> ScoredRollout:
        """The rollout with its scores; rewards, shares of right completions and lengths are reported."""
        self.held_out.add_report(report_episodes(rollout, self.environment))
        scoring = rewards.submit(rollout)
        scored = scoring.result()
        scoring.warn()
        if rewards.rewards:
            # one completion per prompt has nothing to be normalised by
            self.held_out.add("reward", rewards.row_rewards(scored, held_out=True))
            self.held_out.add_all({**rewards.statistics(scored, held_out=True), **scoring.statistics()}, scored.response_mask)
            correct = self.evaluation.correct_reward(rewards.rewards)
            report_samples(self.held_out, scored, self.evaluation, correct, rewards.rewards[correct])
        self.held_out.add_report(report_lengths(scored))
        return scored
