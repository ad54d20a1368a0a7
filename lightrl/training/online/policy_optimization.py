"""The walk of a batch: rollout, reward, optimisation."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import Ahead, Positive, PromptsPerRollout, Seed, refuse_outside
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.online.experience import RolloutRewards, experience_of, with_advantages
from lightrl.training.online.policy_learner import PolicyLearner
from lightrl.training.online.predictions import predict
from lightrl.training.online.rollout_collector import RolloutCollector, refuse_no_rewards
from lightrl.training.online.rollout_report import observe_kl, report_experience
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import log_numbers
from lightrl.training.setup.given import as_algorithm
from lightrl.training.steps.fitting_passes import MicroBatchTokens
from lightrl.training.steps.learner import StepSettings
from lightrl.types import ScoredRollout, TrainingBatch


class PolicyOptimization(PolicyModule):
    """Trains a policy on its own completions: one rollout, its rewards and its optimizer steps per Lightning epoch.

    Lightning's epochs, checkpoints, validation and progress therefore count rollouts; `trainer.global_step` counts
    optimizer steps.
    """

    makes_rollouts = True
    learner_class = PolicyLearner
    collector_class = RolloutCollector
    learner: PolicyLearner
    collector: RolloutCollector

    def __init__(
        self,
        policy: PolicySource,
        algorithm: Algorithm,
        rewards: dict[str, Reward] | None = None,
        engine: RolloutEngine = TransformersEngine(),
        environment: Environment = SingleTurn(),
        prompts_per_rollout: PromptsPerRollout = 32,
        rollouts_ahead: Ahead = 0,
        micro_batch_tokens: MicroBatchTokens = "auto",
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-6, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: Positive | None = 1.0,
        evaluation: Evaluation = Evaluation(),
        seed: Seed = 0,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            algorithm: the parts that say how the policy learns.
            rewards: the value of a completion, by name; a function or its import path is a `Function`. null: none, or the environment's.
            engine: generates the completions.
            environment: answers the policy; by default none does.
            prompts_per_rollout: prompts (groups) per rollout over all ranks; rows are this times the sampler's group size.
            rollouts_ahead: each rollout is made so many rollouts before it is learnt from, while the policy learns; needs `ProcessEngine`
                or another engine with weights of its own.
            micro_batch_tokens: tokens per forward and backward pass, a prompt counted once; no influence on the gradient. auto: chosen
                for model and device; null: all at once.
            optimizer: of the policy and the critic.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.
            seed: of the order of groups or rows over minibatches.

        Raises:
            ValueError: there is no reward, or the sizes do not fit each other.
        """
        wants = refuse_no_rewards(algorithm := as_algorithm(algorithm), rewards, environment)
        settings = StepSettings(micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm)
        super().__init__(policy, rewards or {}, engine, environment, evaluation, settings, wants)
        self.algorithm = algorithm
        self.learner.learn_by(algorithm, seed)
        self.collector.plan(prompts_per_rollout, rollouts_ahead)
        refuse_outside(type(self), {"prompts_per_rollout": prompts_per_rollout, "rollouts_ahead": rollouts_ahead, "seed": seed})
        self.experience: TrainingBatch | None = None

    def training_step(self, batch: object, batch_idx: int) -> None:
        """One rollout and the optimizer steps on it; the loader's batch has no content."""
        started = time.perf_counter()
        rollout = self.rollout_phase()
        training_batch = self.advantage_phase(rollout)
        self.optimization_phase(training_batch)
        self.collector.ahead.wait_for_background()
        self.finish(training_batch, time.perf_counter() - started)

    def rollout_phase(self) -> ScoredRollout:
        """The sampler draws prompts, has them completed and scored, and keeps or redraws."""
        return self.collector.next_rollout()

    def advantage_phase(self, scored: ScoredRollout) -> TrainingBatch:
        """Old and reference log-probs and values if a part needs them, KL in the reward, token weights, advantages."""
        algorithm, collector, adapter = self.algorithm, self.collector, self.learner.adapter
        with self.ledger.phase("logprobs"):
            predictions = predict(scored, self.learner, collector.engine, collector.old_from == "pass")
        with self.ledger.phase("reward"):
            experience, of_rewards = experience_of(scored, RolloutRewards.of(collector.rewards, scored), algorithm, predictions)
            batch, of_advantages = with_advantages(experience, algorithm, adapter, adapter.rank)
            of_rollout = report_experience(batch, collector.rewards, algorithm.correction, algorithm.watched, adapter)
            for report in (of_rewards, of_advantages, of_rollout):
                self.ledger.add_report(report)
        return batch

    def optimization_phase(self, batch: TrainingBatch) -> None:
        """Epochs x minibatches x micro-batches; one optimizer step per minibatch. Then the critic's own passes."""
        learner, before = self.learner, self.trainer.global_step
        with self.ledger.phase("optimize"):
            for minibatch in learner.minibatches(batch, learner.passes):
                if not learner.update(minibatch, self.collector.agreement_limits, self.collector.old_from == "step"):
                    break
            for minibatch in learner.minibatches(batch, learner.critic_passes):
                learner.update_critic(minibatch)
        if self.trainer.global_step > before:
            self.algorithm.advantage.commit()

    def finish(self, batch: TrainingBatch, seconds: float) -> None:
        """After the last step of a rollout: sampler, controllers, throughput, and everything logged."""
        learner, adapter, kl, rewards = self.learner, self.learner.adapter, self.algorithm.kl, self.collector.rewards
        self.algorithm.sampler.commit(batch, adapter)
        if kl is not None:
            moved = kl.against == "old" and kl.observes and not learner.warms_up
            self.ledger.add_report(observe_kl(kl, batch, learner.logprobs_now(batch) if moved else None, adapter))
        tokens = float(batch.response_lengths.sum())
        self.ledger.add_report(learner.progress.add(tokens, seconds, learner.steps, adapter))
        self.experience = batch
        rewards.after_rollout()
        self.numbers = self.ledger.reduce(adapter.gather)
        log_numbers(self.trainer, self.numbers)
        rewards.observe(self.numbers)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """One: an epoch of Lightning's is a rollout."""
        return 1

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps on one rollout at most, the critic's own passes included."""
        return (self.algorithm.epochs + getattr(self.algorithm.critic, "extra_epochs", 0)) * self.algorithm.minibatches

    def on_fit_start(self) -> None:
        """See `PolicyModule.on_fit_start`; also say whose log-probs are the old ones, if the precision has decided it."""
        super().on_fit_start()
        if sentence := self.collector.said:
            self.print(sentence)

    def attach(self, policy: Policy) -> None:
        """See `PolicyModule.attach`; also ranks, prompts, rewards and sampler fit each other."""
        super().attach(policy)
        self.collector.check()

    def build_models(self) -> None:
        """Build policy, critic and references."""
        super().build_models()
        if self.trainer.state.fn == "fit":
            self.learner.build_others()

    def teardown(self, stage: str) -> None:
        """End what was started, and with it a rollout under way."""
        super().teardown(stage)
        self.collector.ahead.close()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """State of the parts, the rewards and the rollouts, and how far the run has come."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["lightrl"] = run_state_of(self.learner, self.collector)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` gave."""
        super().on_load_checkpoint(checkpoint)
        state = checkpoint["lightrl"]
        if self.trainer.state.fn == "fit":
            load_run_state(state, self.learner, self.collector)
        self.collector.rollouts.load_state_dict(state["rollouts"][self.trainer.global_rank % len(state["rollouts"])])


def run_state_of(learner: PolicyLearner, collector: RolloutCollector) -> dict[str, Any]:
    """Everything that must survive a restart beside weights, optimizer and loops, each rank's own too; collective."""
    algorithm, rewards, gather = learner.algorithm, collector.rewards, learner.adapter.gather
    return {
        "algorithm": algorithm.state_dict(),
        "algorithm_per_rank": gather(algorithm.state_dict(per_rank=True)),
        "rewards": rewards.state_dict(),
        "rewards_per_rank": gather(rewards.state_dict(per_rank=True)),
        "rollouts": gather(collector.rollouts.state_dict()),
        "ahead": gather(collector.ahead.state_dict()),
        "progress": learner.progress.state_dict(),
    }


def load_run_state(state: dict[str, Any], learner: PolicyLearner, collector: RolloutCollector) -> None:
    """Take back what the parts and rewards need to go on learning; another number of ranks is refused where something was kept per rank."""
    rank, ranks = learner.adapter.rank, learner.adapter.world_size
    states, of_ranks, made = state["algorithm_per_rank"], state["rewards_per_rank"], state["ahead"]
    kept = [f"model.algorithm.{slot}" for slot in sorted({slot for one in states for slot in one})]
    kept += ["model.rollouts_ahead"] if any(made) else []
    if kept and len(states) != ranks:
        raise ValueError(
            f"the checkpoint holds what each of {len(states)} ranks kept for {kept[0]}, and this run has {ranks}: "
            "resume with as many ranks, or start a new run from the checkpoint's weights"
        )
    learner.algorithm.load_state_dict(state["algorithm"] | states[rank % len(states)])
    # a new rank takes the history of another one
    collector.rewards.load_state_dict(state["rewards"] | of_ranks[rank % len(of_ranks)])
    collector.ahead.load_state_dict(made[rank % len(made)])
    learner.progress.load_state_dict(state["progress"])
