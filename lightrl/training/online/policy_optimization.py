"""The walk of a batch: rollout, reward, optimisation."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.parts.reward import Reward
from lightrl.policy.packing_probe import longest_packed
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import Ahead, Positive, PromptsPerRollout, Seed, refuse_outside
from lightrl.ranks import Ranks
from lightrl.rewards.reward_set import RewardSet
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.online.collection import RunCollection
from lightrl.training.online.critic_only_steps import CriticOnlySteps, critic_groups
from lightrl.training.online.early_stop import EarlyStop
from lightrl.training.online.experience import experience_of, with_advantages
from lightrl.training.online.first_pass import FirstPassCheck
from lightrl.training.online.forwards import NO_OUTPUTS, Outputs, compared_at_hand, logprobs_now, per_token, policy_outputs
from lightrl.training.online.kl_observation import observe_kl
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.old_logprobs import recomputes, said
from lightrl.training.online.part_state import load_learner_state, state_of_parts
from lightrl.training.online.passes import critic_passes, critic_warms_up, joint_passes, minibatches_of
from lightrl.training.online.predictions import predict
from lightrl.training.online.preparation import prepared
from lightrl.training.online.progress import Progress
from lightrl.training.online.rollout_report import report_experience
from lightrl.training.online.rollout_sizes import refuse_no_rewards, refuse_unfit, settle_rollouts
from lightrl.training.online.rollouts_ahead import RolloutsAhead, check_ahead
from lightrl.training.policy_module import PolicyModule
from lightrl.training.reports.run_ledger import RunLedger
from lightrl.training.setup.given import as_algorithm
from lightrl.training.steps.moving_reference import move
from lightrl.training.steps.token_budget import MicroBatchTokens
from lightrl.types import PolicyOutput, ScoredRollout, TrainingBatch


class PolicyOptimization(PolicyModule):
    """Trains a policy on its own completions: one rollout, its rewards and its optimizer steps per Lightning epoch.

    Lightning's epochs, checkpoints, validation and progress therefore count rollouts; `trainer.global_step` counts
    optimizer steps.
    """

    rewards: RewardSet
    cut_minibatches = staticmethod(minibatches_of)

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
            environment: answers the policy; by default nobody does.
            prompts_per_rollout: prompts (groups) per rollout over all ranks; rows are this times the sampler's group size.
            rollouts_ahead: each rollout is made so many rollouts before it is learnt from, while the policy learns; needs `ProcessEngine`
                or another engine with weights of its own.
            micro_batch_tokens: tokens per forward and backward pass, a prompt counted once; no influence on the gradient. auto: chosen
                for model and device; null: all at once.
            optimizer: of the policy and the critic.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.
            seed: of the order of groups over minibatches.

        Raises:
            ValueError: there is no reward, or the sizes do not fit each other.
        """
        wants = refuse_no_rewards(algorithm := as_algorithm(algorithm), rewards, environment)
        settings = engine, environment, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation
        super().__init__(policy, rewards or {}, *settings, wants)
        settle_rollouts(prompts_per_rollout, algorithm, self.engine, environment)
        check_ahead(rollouts_ahead, self.engine, algorithm)
        self.algorithm, self.prompts_per_rollout, self.seed = algorithm, prompts_per_rollout, seed
        refuse_outside(type(self), vars(self))
        self.ahead = RolloutsAhead(rollouts_ahead, self.collect)
        self.rollouts.show = self.rollouts.show if not rollouts_ahead else lambda progress: None
        self.critic: nn.Module | None = None
        self.experience: TrainingBatch | None = None
        self._first_pass, self._progress = FirstPassCheck(), Progress()

    def on_fit_start(self) -> None:
        """See `EvaluatedModule.on_fit_start`; also say whose log-probs are the old ones, if the precision has decided it."""
        super().on_fit_start()
        if sentence := said(self.algorithm, self.engine, self.ahead.ahead, self.compute_dtype):
            self.print(sentence)

    def training_step(self, batch: object, batch_idx: int) -> None:
        """One rollout and the optimizer steps on it; the loader's batch has no content."""
        started = time.perf_counter()
        rollout = self.rollout_phase()
        experience = self.reward_phase(rollout)
        self.optimization_phase(experience)
        self.ahead.arrive(self.ledger)
        self.finish(experience, time.perf_counter() - started)

    def rollout_phase(self) -> ScoredRollout:
        """The rollout that is next to be learnt from; with `rollouts_ahead` a later one is begun, with the present weights."""
        self.update_engine()
        made = self.ahead.next(self.trainer.current_epoch, self.adapter, self.ledger.observers, self.rollouts.probe)
        made.report(self.ledger, self.trainer.current_epoch, self.trainer.global_step)
        return made.scored

    def collect(self, ranks: Ranks, ledger: RunLedger) -> ScoredRollout:
        """The sampler draws prompts, has them completed and scored, and keeps or redraws."""
        prompts, data = self.prompts_per_rollout // self.adapter.world_size, self.prompt_data
        return self.algorithm.sampler.collect(RunCollection(prompts, data, self.rollouts, self.rewards, ranks, ledger))

    def reward_phase(self, scored: ScoredRollout) -> TrainingBatch:
        """Old and reference log-probs and values if a part needs them, KL in the reward, token weights, advantages."""
        algorithm, ledger = self.algorithm, self.ledger
        with self.ledger.phase("reward"):
            predictions = predict(scored, algorithm, self.policy, self.engine, self.recomputes, self.outputs, self._per_token)
            rewards = *self.rewards.token_rewards(scored), self.rewards.row_rewards(scored)
            experience = experience_of(scored, *rewards, algorithm, predictions, ledger)
            batch = with_advantages(experience, algorithm, self.adapter, self.trainer.global_rank, ledger)
            report_experience(ledger, batch, self.rewards, algorithm.correction, algorithm.watched, self.adapter)
        return batch

    def optimization_phase(self, batch: TrainingBatch) -> None:
        """Epochs x minibatches x micro-batches; one optimizer step per minibatch of whole groups. Then the critic's own passes."""
        before, rollout = self.trainer.global_step, self.trainer.current_epoch
        cut = partial(self.cut_minibatches, batch, count=self.algorithm.minibatches, seed=self.seed, rollout=rollout)
        with self.ledger.phase("optimize"):
            for minibatch in cut(joint_passes(self.algorithm, rollout)):
                if not self.update(minibatch):
                    break
            if (critic := self.critic_alone) is not None:
                for minibatch in cut(critic_passes(self.algorithm, rollout)):
                    critic.update(minibatch)
        if self.trainer.global_step > before:
            self.algorithm.advantage.commit()

    @property
    def recomputes(self) -> bool:
        """The old log-probs are the trainer's own."""
        return recomputes(self.algorithm, self.engine, self.ahead.ahead, self.compute_dtype)

    def update(self, minibatch: TrainingBatch) -> bool:
        """One optimizer step; False if the policy has moved far enough and the rest of the rollout is to be left."""
        with compared_at_hand(self.policy, self.algorithm, self.algorithm.outputs):
            return self._update(minibatch)

    def _update(self, minibatch: TrainingBatch) -> bool:
        minibatch = prepared(minibatch, self.algorithm, self.outputs, self._per_token, self.adapter, self.trainer.global_step)
        loss = StepLoss(terms_of(self.algorithm), minibatch, self.adapter.total, partial(self.outputs, read=self.algorithm.outputs))
        if loss.empty:
            self.ledger.add("skipped_steps", 1 / self.adapter.world_size, reduce="sum")
            return True
        rows = loss.rows_of(minibatch)
        self.ledger.add_report(loss.left_out(minibatch))
        fresh = bool((rows.policy_version == self.trainer.global_step).all())
        step = self.step_on(rows, loss, EarlyStop(self.algorithm.stop_kl, self.adapter))
        if not step.made:
            self.ledger.add("stopped_early", 1 / self.adapter.world_size, reduce="sum")
        self._first_pass.check(step.statistics, self.ledger, fresh, self.agreement_limits)
        if step.made:
            move(self.algorithm.references.values(), self.policy, self.trainer.global_step, self.adapter)
        return step.made

    @property
    def critic_alone(self) -> CriticOnlySteps | None:
        """Makes the critic's own steps, if there is a critic."""
        if self.critic is None or self.algorithm.critic is None:
            return None
        return CriticOnlySteps(self.algorithm.critic, self.critic, self.policy, self.adapter, self.made_optimizer, self.step_on)

    def outputs(self, batch: ScoredRollout, mask: Tensor, read: Outputs = NO_OUTPUTS) -> PolicyOutput:
        """Log-probs of the selected tokens, the outputs of the policy that parts read, and values if there is a critic."""
        return policy_outputs(self.policy, self.critic, self.algorithm, batch, mask, read)

    def finish(self, batch: TrainingBatch, seconds: float) -> None:
        """After the last step of a rollout: sampler, controllers, throughput, and everything logged."""
        self.algorithm.sampler.commit(batch, self.adapter)
        if self.algorithm.kl is not None:
            unmoved = critic_warms_up(self.algorithm, self.trainer.current_epoch)
            now = None if unmoved else partial(logprobs_now, batch, self.outputs, self._per_token)
            observe_kl(self.algorithm.kl, batch, now, self.adapter.total, self.ledger)
        self._progress.report(self.ledger, float(batch.response_lengths.sum()), seconds, self.trainer.global_step, self.adapter.total)
        self.experience = batch
        self.rewards.after_rollout()
        self.rewards.observe(self.log_ledger())

    def steps_per_epoch(self, prompts: int | None) -> int:
        """One: an epoch of Lightning's is a rollout."""
        return 1

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps on one rollout at most, the critic's own passes included."""
        return (self.algorithm.epochs + getattr(self.algorithm.critic, "extra_epochs", 0)) * self.algorithm.minibatches

    def take(self, policy: Policy) -> None:
        """See `PolicyModule.take`; also ranks, prompts, rewards and sampler fit each other."""
        super().take(policy)
        refuse_unfit(self.algorithm, self.policy, self.environment, self.prompts_per_rollout, self.rewards, self.trainer)

    def build_models(self) -> None:
        """Build policy, critic and references."""
        super().build_models()
        fits = self.trainer.state.fn == "fit"
        if fits and self.algorithm.critic is not None:
            network: Any = self.algorithm.critic.build(self.policy)
            if self.algorithm.critic.own_trunk:
                network.longest_packed = longest_packed(network.trunk)
            self.critic = network
        for reference in self.algorithm.references.values() if fits else ():
            reference.build(self.policy)

    @property
    def group_count(self) -> int:
        """The policy's group, and the critic's if there is one."""
        return 1 if self.algorithm.critic is None else 2

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The policy's group, and the critic's with its own learning rate if it has one."""
        return super().parameter_groups() + critic_groups(self.algorithm.critic, self.critic)

    def teardown(self, stage: str) -> None:
        """End what was started, and with it a rollout under way."""
        super().teardown(stage)
        self.ahead.close()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """State of the parts, the rewards and the rollouts, and how far the run has come."""
        super().on_save_checkpoint(checkpoint)
        parts = self.algorithm, self.rewards, self.rollouts, self.ahead, self._progress
        checkpoint["lightrl"] = state_of_parts(*parts, self.adapter.gather)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` gave."""
        super().on_load_checkpoint(checkpoint)
        state, rank = checkpoint["lightrl"], self.trainer.global_rank
        if self.trainer.state.fn == "fit":
            load_learner_state(state, self.algorithm, self.rewards, self.ahead, self._progress, rank, self.trainer.world_size)
        self.rollouts.load_state_dict(state["rollouts"][rank % len(state["rollouts"])])

    def _per_token(self, scored: ScoredRollout, compute: Callable[[ScoredRollout], dict[str, Tensor]]) -> dict[str, Tensor]:
        return self.fitting.run(
            scored.sequences().to("cpu"), lambda cuts: per_token(scored, cuts, self.device, compute, self.adapter.largest)
        )
