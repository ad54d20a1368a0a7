"""What completes and scores prompts in a run, and the evaluation of a policy with it."""

from __future__ import annotations

import torch
from lightning.pytorch import Callback, LightningModule

from lightrl.data.loaders import PromptBatch
from lightrl.ops.agreement import Limits
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rewards.environment_reward import with_environment
from lightrl.rewards.reward_set import RewardSet
from lightrl.rollout.loop import RolloutLoop
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.adapter_choice import adapter_for
from lightrl.training.evaluating.canary import Canary, mismatch
from lightrl.training.evaluating.evaluator import predictions, sample, score
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.reports.run_ledger import PhaseObserver, RunLedger
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.training.setup.given import as_engine, as_environment, as_rewards
from lightrl.training.setup.precision import compute_dtype, keep_default_format
from lightrl.types import JSON, Prompt, Rollout, ScoredRollout
from lightrl.workers.waiting import waiting


class EvaluatedModule(LightningModule):
    """The engine, the environment and the rewards of a run, and evaluation by completions that they make and score."""

    policy: Policy
    """The network that is trained; there once the trainer has called `configure_model`."""
    rewards: RewardSet | None
    """The rewards that score completions, if there are any."""

    def __init__(
        self,
        rewards: dict[str, Reward],
        engine: RolloutEngine,
        environment: Environment,
        evaluation: Evaluation,
        needs_rewards: bool,
    ) -> None:
        """
        Args:
            rewards: the value of a completion, by name.
            engine: generates completions.
            environment: answers the policy.
            evaluation: how validation and test draw completions.
            needs_rewards: what the policy learns from has them; False: it has a set of rewards that may be empty.
        """
        super().__init__()
        self.engine, self.environment, self.evaluation = as_engine(engine), as_environment(environment), evaluation
        every = with_environment(as_rewards(rewards), self.environment)
        self.rewards = RewardSet(every, needs_rewards) if every or not needs_rewards else None
        if every:
            evaluation.correct_reward(every)
        self.ledger, self._evaluation_ledger = RunLedger(), StatisticsLedger()
        self.rollouts = RolloutLoop(self.engine, self.environment)
        self.rollouts.check_engine = self.check_engine
        self.rollouts.show = lambda progress: self.ledger.show(f"rollout, {progress}")
        self.samples: Rollout | None = None
        self._canary = Canary()

    @property
    def adapter(self) -> StrategyAdapter:
        """Forward, backward, step and sums over ranks, as the strategy does them."""
        if not hasattr(self, "_adapter"):
            self._adapter = adapter_for(self.trainer, self)
        return self._adapter

    def setup(self, stage: str) -> None:
        """Keep float32 as the format of whatever is made without saying which, and find the callbacks that follow phases."""
        keep_default_format(self.trainer.strategy)
        callbacks: list[Callback] = self.trainer.callbacks  # type: ignore[attr-defined]
        self.ledger.observers = [callback for callback in callbacks if isinstance(callback, PhaseObserver)]

    def on_fit_start(self) -> None:
        """Let engine, environment and rewards start the processes that they need."""
        with waiting("starting engine, environment and rewards"):
            self.rollouts.start()
            if self.rewards is not None:
                self.rewards.start()

    def teardown(self, stage: str) -> None:
        """End the processes that engine, environment and rewards have started."""
        self.rollouts.close()
        if self.rewards is not None:
            self.rewards.close()

    def evaluation_step(self, prompts: list[Prompt]) -> ScoredRollout:
        """Complete and score held-out prompts."""
        if self.rewards is None:
            raise ValueError("model.rewards is empty, so completions of the validation prompts cannot be scored: name a reward")
        self.ledger.show("evaluating")
        self.update_engine()
        rollout = sample(self.rollouts, prompts, self.evaluation)
        return score(rollout, self.environment, self.rewards, self.evaluation, self._evaluation_ledger)

    def update_engine(self) -> None:
        """Let the engine have the policy's present weights."""
        self.rollouts.update_weights(TrainerWeights(self.policy, self.adapter, self.compute_dtype), self.trainer.global_step)

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype that the trainer's layers compute in, also where Lightning's autocast is off at the moment."""
        with self.trainer.precision_plugin.forward_context():
            return compute_dtype(self.policy.model.dtype, self.device)

    @property
    def agreement_limits(self) -> Limits:
        """Limits on the differences between log-probs of engine and trainer that rounding explains."""
        return Limits.of(self.compute_dtype, self.engine.logprob_tolerance)

    def check_engine(self, answers: Rollout) -> None:
        """Compare log-probs of an engine with weights of its own with the trainer's; called after each update.

        Args:
            answers: to the same questions in every call.

        Raises:
            RuntimeError: on every rank, if the engine of one does not have the trainer's weights.
        """
        if not self.engine.comparable_logprobs:
            return
        complaint = self._canary.look(answers, self.policy, self.device, self.agreement_limits)
        self.ledger.add("engine/deviation", self._canary.agreement.largest, reduce="max")
        if complaints := [one for one in self.adapter.gather(complaint) if one is not None]:
            raise mismatch(type(self.engine).__name__, self.trainer.global_step, complaints[0])

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of validation prompts."""
        samples = self.evaluation_step(batch.prompts)
        self.samples = samples if batch_idx == 0 else self.samples

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of test prompts."""
        self.evaluation_step(batch.prompts)

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, JSON]]:
        """Complete one batch of prompts; one JSON value per completion."""
        return predictions(self.evaluation_step(batch.prompts))

    def on_validation_epoch_end(self) -> None:
        """Log what validation found as `val/...`."""
        self._log_evaluation("val")

    def on_test_epoch_end(self) -> None:
        """Log what the test found as `test/...`."""
        self._log_evaluation("test")

    def _log_evaluation(self, stage: str) -> None:
        numbers = self._evaluation_ledger.reduce(self.adapter.gather)
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)
