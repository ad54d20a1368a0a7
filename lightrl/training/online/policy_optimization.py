"""The walk of a batch: rollout, reward, optimisation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jsonargparse import lazy_instance
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.batching import minibatches
from lightrl.ops.kl import k3
from lightrl.ops.masked import masked_sum
from lightrl.ops.random import row_seed
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine
from lightrl.training.evaluation import Evaluation
from lightrl.training.online.collection import RunCollection
from lightrl.training.online.dummy_batch import dummy_batch
from lightrl.training.online.experience import add_advantages, experience_of
from lightrl.training.online.first_pass import check_first_pass, tolerance
from lightrl.training.online.forwards import per_token
from lightrl.training.online.loss import VALUE, denominators_of, micro_batch_loss, terms_of, trained_tokens, value_loss
from lightrl.training.online.part_state import load_learner_state, state_of_parts
from lightrl.training.online.rollout_report import report_correction, report_experience
from lightrl.training.policy_module import PolicyModule
from lightrl.training.precision import compute_dtype
from lightrl.training.statistics import StatisticsLedger
from lightrl.types import Experience, PolicyOutput, ScoredRollout

POLICY_GROUP = 0
"""Number of the policy's parameter group."""


class PolicyOptimization(PolicyModule):
    """Trains a policy on its own completions: one rollout, its rewards and its optimizer steps per Lightning epoch.

    Lightning's epochs, checkpoints, validation and progress therefore count rollouts; `trainer.global_step` counts
    optimizer steps.
    """

    def __init__(
        self,
        policy: PolicySource,
        algorithm: Algorithm,
        rewards: dict[str, Reward],
        engine: RolloutEngine = lazy_instance(TransformersEngine),
        prompts_per_rollout: int = 32,
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-6, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: float | None = 1.0,
        evaluation: Evaluation = Evaluation(),
        seed: int = 0,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            algorithm: the bundle of parts that says how it learns.
            rewards: what a completion is worth, by name; a bare import path is shorthand for `Function`.
            engine: who generates the completions.
            prompts_per_rollout: prompts (groups) per rollout over all ranks; rows are this times the sampler's group size.
            micro_batch_tokens: padded tokens per forward and backward pass; no influence on the gradient. null: all at once.
            optimizer: of the policy and the critic.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.
            seed: of the order of groups over minibatches.

        Raises:
            ValueError: there is no reward, or the sizes do not fit each other.
        """
        super().__init__(policy, rewards, engine, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        if self.rewards is None:
            raise ValueError("model.rewards is empty: name at least one reward, for example rewards: {correct: ExactMatch}")
        if prompts_per_rollout < algorithm.minibatches:
            raise ValueError(
                f"model.prompts_per_rollout is {prompts_per_rollout}, but algorithm.minibatches is {algorithm.minibatches}, and "
                "minibatches are whole groups: raise the one or lower the other"
            )
        if self.engine.sampling.temperature == 0:
            raise ValueError("model.engine.temperature is 0, and a policy that never varies cannot learn from its rollouts; use 1.0")
        self.algorithm, self.prompts_per_rollout, self.seed = algorithm, prompts_per_rollout, seed
        self.critic: torch.nn.Module | None = None
        self.experience: Experience | None = None
        self._terms = terms_of(algorithm)
        self._first_pass_seen = False
        self._progress = {"tokens": 0.0, "seconds": 0.0}

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """One rollout and what is learnt from it; the loader's batch only marks time."""
        started = time.perf_counter()
        rollout = self.rollout_phase()
        experience = self.reward_phase(rollout)
        self.optimization_phase(experience)
        self.finish(experience, time.perf_counter() - started)

    def rollout_phase(self) -> ScoredRollout:
        """The sampler draws prompts, has them completed and scored, and keeps or redraws."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        assert self.rewards is not None
        prompts = self.prompts_per_rollout // self.adapter.world_size
        collection = RunCollection(prompts, data.draw, self.engine, self.rewards, self.adapter, self.phase, self.ledger)
        with self.adapter.gathered_weights():
            self.engine.sync(self.policy, self.trainer.global_step)
            scored = self.algorithm.sampler.collect(collection)
        self.ledger.add("sampling/staleness", (self.trainer.global_step - scored.policy_version).double())
        return scored

    def reward_phase(self, scored: ScoredRollout) -> Experience:
        """Old and reference log-probs and values if a part needs them, KL in the reward, loss masks, advantages."""
        assert self.rewards is not None
        with self.phase("reward"):
            old, values, reference = self._without_gradient(scored)
            token_rewards, step_ends = self.rewards.token_rewards(scored)
            experience = experience_of(scored, token_rewards, step_ends, self.algorithm, old, reference, values, self.ledger)
            add_advantages(experience, self.algorithm, self.adapter.gather, self.trainer.global_rank, self.ledger)
            report_experience(self.ledger, experience, self.rewards)
            if self.algorithm.correction is not None:
                report_correction(self.ledger, self.algorithm.correction, experience)
        return experience

    def optimization_phase(self, experience: Experience) -> None:
        """Epochs x minibatches x micro-batches; one optimizer step per minibatch of whole groups. Then the critic's own passes."""
        (joint, alone), before = self._passes(), self.trainer.global_step
        with self.phase("optimize"):
            for minibatch in self._minibatches(experience, joint):
                if not self.update(minibatch):
                    break
            for minibatch in self._minibatches(experience, alone):
                self.update_critic(minibatch)
        if self.trainer.global_step > before:
            self.algorithm.advantage.commit()

    def update(self, minibatch: Experience) -> bool:
        """One optimizer step; False if the policy has moved far enough and the rest of the rollout is to be left."""
        counts = denominators_of(self._terms, minibatch, self.adapter.total)
        if all(count.tokens == 0 for count in counts.values()):
            self.ledger.add("skipped_steps", 1 / self.adapter.world_size, reduce="sum")
            return True
        # without any row the gradients would be None and not 0, and AdamW would treat the step as never made
        rows = trained_tokens(self.algorithm, self._terms, minibatch).any(1).nonzero()[:, 0]
        kept = minibatch.select(rows) if len(rows) else dummy_batch(minibatch)
        step, shares = StatisticsLedger(self.ledger.kept), dict[str, float]()

        def loss_of(micro: Experience) -> Tensor:
            trained = trained_tokens(self.algorithm, self._terms, micro)
            output = self.outputs(micro, trained)
            losses = micro_batch_loss(self.algorithm, self._terms, counts, micro, trained, output, step)
            for name, loss in losses.items():
                shares[name] = shares.get(name, 0.0) + float(loss.detach())
            return torch.stack(list(losses.values())).sum()

        fresh = bool((kept.policy_version == self.trainer.global_step).all())
        made = self.step_on(kept, kept.lengths, loss_of, lambda: self._moved_too_far(step))
        for name, share in shares.items():
            self.ledger.add(name, share * self.adapter.world_size)
        self._check_first_pass(step, fresh)
        self.ledger.merge(step)
        if made and self.algorithm.reference.moves_at(self.trainer.global_step):
            with self.adapter.gathered_weights():
                self.algorithm.reference.after_step(self.policy, self.trainer.global_step)
        return made

    def update_critic(self, minibatch: Experience) -> None:
        """One optimizer step of the critic alone: the policy keeps its weights, and its optimizer state."""
        critic = self.algorithm.critic
        assert critic is not None
        term = self._terms[VALUE]
        counts = denominators_of({VALUE: term}, minibatch, self.adapter.total)[VALUE]
        if counts.tokens == 0:
            return
        rows = (term.token_weight(minibatch) > 0).any(1).nonzero()[:, 0]
        kept = minibatch.select(rows) if len(rows) else dummy_batch(minibatch)
        shares: list[float] = []

        def loss_of(micro: Experience) -> Tensor:
            weights = term.aggregation.weights(term.token_weight(micro), micro.group, counts)
            values = self.outputs(micro, weights > 0, alone=True).values
            assert values is not None
            loss = value_loss(critic, micro, values, weights, self.ledger)
            shares.append(float(loss.detach()))
            return loss + self.adapter.zero_loss(self._policy_parameters())

        with self.adapter.frozen(self.optimizers(), [POLICY_GROUP]):
            self.step_on(kept, kept.lengths, loss_of)
        self.ledger.add(VALUE, sum(shares) * self.adapter.world_size)

    def outputs(self, batch: Experience | ScoredRollout, mask: Tensor, alone: bool = False) -> PolicyOutput:
        """What the policy (and the critic, or the critic alone) says of the selected tokens of a micro-batch."""
        if alone:
            assert self.critic is not None
            values = self.policy.values(batch.input_ids, mask, self.critic)
            return PolicyOutput(logprobs=torch.zeros_like(values), values=values)
        entropy = "entropy" in self.algorithm.needs
        output: PolicyOutput = self.policy(batch.input_ids, mask, batch.temperature, entropy, self.critic)
        return output

    def finish(self, experience: Experience, seconds: float) -> None:
        """After the last step of a rollout: controllers, throughput, and everything logged."""
        self._observe_kl(experience)
        tokens = float(experience.response_lengths.sum())
        self.ledger.add("perf/completion_tokens", tokens, reduce="sum")
        self.ledger.add("perf/tokens_per_second", tokens / seconds, reduce="sum")
        self.ledger.add("perf/seconds", seconds, reduce="max")
        self._report_progress(tokens, seconds)
        self.experience = experience
        assert self.rewards is not None
        self.rewards.after_rollout()
        self.rewards.observe(self.log_ledger())

    def _report_progress(self, tokens: float, seconds: float) -> None:
        """What has been spent since the beginning, before a resume included: other x-axes for every curve."""
        all_tokens = float(self.adapter.total(torch.tensor([tokens], dtype=torch.float64))[0])
        self._progress = {"tokens": self._progress["tokens"] + all_tokens, "seconds": self._progress["seconds"] + seconds}
        for name, value in {**self._progress, "optimizer_steps": float(self.trainer.global_step)}.items():
            self.ledger.add(f"progress/{name}", value, reduce="max")

    @property
    def first_pass_tolerance(self) -> float:
        """Largest |ratio - 1| on the first pass over a rollout that rounding explains."""
        return tolerance(compute_dtype(self.policy.model.dtype, self.device))

    def steps_per_epoch(self, prompts: int | None) -> int:
        """One: an epoch of Lightning's is a rollout."""
        return 1

    @property
    def steps_per_batch(self) -> int:
        """Of one rollout, the critic's own passes included."""
        alone = 0 if self.algorithm.critic is None else self.algorithm.critic.extra_epochs
        return (self.algorithm.epochs + alone) * self.algorithm.minibatches

    def build_models(self) -> None:
        """Build policy, critic and reference, and look whether the sizes fit the devices."""
        super().build_models()
        if self.prompts_per_rollout % self.trainer.world_size:
            raise ValueError(
                f"model.prompts_per_rollout is {self.prompts_per_rollout}, which {self.trainer.world_size} ranks cannot share evenly"
            )
        if self.trainer.state.fn != "fit":
            return
        self._check_columns()
        if self.algorithm.critic is not None:
            self.critic = self.algorithm.critic.build(self.policy)
        if "ref_logprobs" in self.algorithm.needs:
            self.algorithm.reference.build(self.policy)

    @property
    def group_count(self) -> int:
        """The policy's group, and the critic's if there is one."""
        return 1 if self.algorithm.critic is None else 2

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The policy's group, and the critic's with its own learning rate if it has one."""
        groups = super().parameter_groups()
        if self.critic is not None and self.algorithm.critic is not None:
            rate = self.algorithm.critic.learning_rate
            groups.append({"params": list(self.critic.parameters()), **({} if rate is None else {"lr": rate})})
        return groups

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """State of the parts, the rewards and the engine, and how far the run has come."""
        super().on_save_checkpoint(checkpoint)
        assert self.rewards is not None
        checkpoint["lightrl"] = state_of_parts(self.algorithm, self.rewards, self.engine, self.adapter.gather) | {
            "progress": self._progress
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` gave."""
        state, rank = checkpoint["lightrl"], self.trainer.global_rank
        if self.trainer.state.fn == "fit":
            assert self.rewards is not None
            load_learner_state(state, self.algorithm, self.rewards, rank, self.trainer.world_size)
            self._progress = state["progress"]
        self.engine.load_state_dict(state["engine"][rank % len(state["engine"])])

    def _passes(self) -> tuple[range, range]:
        """Numbers of the passes over this rollout: those of policy and critic together, and those of the critic alone."""
        critic, epochs = self.algorithm.critic, self.algorithm.epochs
        if critic is None:
            return range(epochs), range(0)
        joint = 0 if self._critic_warms_up() else epochs
        return range(joint), range(joint, epochs + critic.extra_epochs)

    def _critic_warms_up(self) -> bool:
        critic = self.algorithm.critic
        return critic is not None and self.trainer.current_epoch < critic.warmup_rollouts

    def _policy_parameters(self) -> list[torch.nn.Parameter]:
        return [p for p in self.policy.parameters() if p.requires_grad]

    def _minibatches(self, experience: Experience, epochs: range) -> Iterator[Experience]:
        for epoch in epochs:
            seed = row_seed(self.seed, self.trainer.current_epoch, epoch)
            for rows in minibatches(experience.group, self.algorithm.minibatches, torch.Generator().manual_seed(seed)):
                yield experience.select(rows)

    def _per_token(self, scored: ScoredRollout, compute: Callable[[ScoredRollout], dict[str, Tensor]]) -> dict[str, Tensor]:
        return per_token(scored, self.micro_batch_tokens, self.device, compute, self.adapter.largest)

    def _without_gradient(self, scored: ScoredRollout) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Old log-probs, values and reference log-probs of every sampled token, `[N, L]` each, what nothing needs left out."""
        needs = self.algorithm.needs
        recompute = self.algorithm.old_logprobs == "recompute" or not self.engine.exact_logprobs

        def compute(micro: ScoredRollout) -> dict[str, Tensor]:
            found = {}
            if recompute or "values" in needs:
                output = self.outputs(micro, micro.response_mask)
                found = {"old": output.logprobs, **({} if output.values is None else {"values": output.values})}
            if "ref_logprobs" in needs:
                with self.algorithm.reference.anchor(self.policy) as anchor:
                    found["reference"] = anchor(micro.input_ids, micro.response_mask, micro.temperature).logprobs
            return found

        found = self._per_token(scored, compute) if recompute or needs & {"values", "ref_logprobs"} else {}
        nothing = torch.zeros_like(scored.rollout_logprobs)
        return (
            found.get("old", nothing) if recompute else scored.rollout_logprobs,
            found.get("values", nothing) if "values" in needs else None,
            found.get("reference", nothing) if "ref_logprobs" in needs else None,
        )

    def _logprobs_now(self, scored: ScoredRollout) -> Tensor:
        """`[N, L]` log-probs of every sampled token under the present policy."""
        now = self._per_token(scored, lambda micro: {"now": self.outputs(micro, micro.response_mask).logprobs})
        return now.get("now", torch.zeros_like(scored.rollout_logprobs))

    def _moved_too_far(self, step: StatisticsLedger) -> bool:
        if self.algorithm.stop_kl is None:
            return False
        total, count = self.adapter.total(torch.stack(step.local("approx_kl"))).tolist()
        stopped = bool(total > 1.5 * self.algorithm.stop_kl * count)
        if stopped:
            self.ledger.add("stopped_early", 1 / self.adapter.world_size, reduce="sum")
        return stopped

    def _check_first_pass(self, step: StatisticsLedger, fresh: bool) -> None:
        # a sampler may hand on rows of an older policy, whose ratios are not 1 and need not be
        if fresh and float(step.local("ratio/max_deviation")[1]):
            self.ledger.add("ratio/first_pass_deviation", step.local("ratio/max_deviation")[0], reduce="max")
        if fresh and not self._first_pass_seen and self.algorithm.old_logprobs == "rollout" and self.engine.exact_logprobs:
            check_first_pass(step, compute_dtype(self.policy.model.dtype, self.device))
        self._first_pass_seen |= fresh

    def _observe_kl(self, experience: Experience) -> None:
        kl, mask = self.algorithm.kl, experience.response_mask
        if kl is None:
            return
        if kl.against == "old":
            if not kl.observes or self._critic_warms_up():
                return
            per_token = k3(experience.old_logprobs, self._logprobs_now(experience))
        elif experience.ref_logprobs is not None:
            per_token = experience.old_logprobs - experience.ref_logprobs
        else:
            return
        sums = (masked_sum(per_token.double(), mask), mask.sum(), torch.tensor(len(experience)))
        total, tokens, rows = self.adapter.total(torch.stack([x.double().cpu() for x in sums])).tolist()
        kl.observe(total / max(tokens if kl.unit == "token" else rows, 1), int(rows))
        self.ledger.add("kl_coefficient", kl.loss_coefficient + kl.reward_coefficient)

    def _check_columns(self) -> None:
        data: Any = getattr(self.trainer, "datamodule", None)
        if data is None:
            raise ValueError("there is no data: name a prompt source, for example data: {train: DigitSorting}")
        assert self.rewards is not None
        self.rewards.check(data.columns())
