"""The learner of a policy that learns from rollouts: its critic and references, and the steps on minibatches of a rollout."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lightrl.algorithms.algorithm import Algorithm
from lightrl.ops.agreement import Agreement, Limits
from lightrl.ops.batching import minibatches, split_to
from lightrl.ops.logprobs import AtRows, Compute
from lightrl.ops.random import row_seed
from lightrl.parts.base import TrunkOutput
from lightrl.parts.output import Comparison
from lightrl.parts.step_part import Minibatch
from lightrl.policy.packed_trunk import longest_packed
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.networks import NO_OUTPUTS, ByName, Networks, Outputs, beside, compared_at_hand, dummy_batch
from lightrl.training.online.preparation import current_output, prepared
from lightrl.training.online.rollout_report import Progress
from lightrl.training.online.terms import ValueTerm
from lightrl.training.reports.statistics import Report, StatisticsLedger
from lightrl.training.steps.learner import Learner, MicroBatchLoss, Step
from lightrl.types import PolicyOutput, ScoredRollout, TrainingBatch

POLICY_GROUP = 0
"""Number of the policy's parameter group."""


class PolicyLearner(Learner, Networks):
    """Policy, critic and references of an algorithm, and the optimizer steps on its rollouts."""

    algorithm: Algorithm
    """Whose parts say how the policy learns."""
    critic: nn.Module | None = None
    """Gives values; None: there is none, or it has not been built."""
    seed = 0
    """Of the order of groups or rows over minibatches."""

    def learn_by(self, algorithm: Algorithm, seed: int) -> None:
        """Learn by this algorithm; the seed is that of the order of groups or rows over minibatches."""
        self.algorithm, self.seed = algorithm, seed
        self.progress = Progress()
        self._first_pass = FirstPassCheck()

    def build_others(self) -> None:
        """Build the critic, as the child `critic` of the module, and the references."""
        if self.algorithm.critic is not None:
            network: Any = self.algorithm.critic.build(self.policy)
            if self.algorithm.critic.own_trunk:
                network.longest_packed = longest_packed(network.trunk)
            self.critic = network
            self.module.add_module("critic", network)
        for reference in self.algorithm.references.values():
            reference.build(self.policy)

    @property
    def group_count(self) -> int:
        """The policy's group, and the critic's if there is one."""
        return 1 if self.algorithm.critic is None else 2

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The policy's group, and the critic's with its own learning rate if it has one."""
        part, groups = self.algorithm.critic, super().parameter_groups()
        if part is None or self.critic is None:
            return groups
        rate = {} if part.learning_rate is None else {"lr": part.learning_rate}
        named = dict(self.critic.named_parameters())
        return [*groups, {"params": list(named.values()), "param_names": list(named), **rate}]

    def outputs(self, batch: ScoredRollout, mask: Tensor, read: Outputs = NO_OUTPUTS) -> PolicyOutput:
        """One forward pass; see `Networks.outputs`.

        Extras that parts have travel with the tokens do so once they are there: not yet in the pass that says what the policy was before.
        """
        policy, read_as = self.policy, batch.as_read()
        found: dict[str, Compute | AtRows | TrunkOutput] = {}
        for name, output in read.items():
            found[name] = output if isinstance(output, TrunkOutput) else output.compute
        compared = {name: output for name, output in read.items() if isinstance(output, Comparison)}
        others = {slot: self._logits(slot, batch, mask) for slot in sorted({output.against for output in compared.values()})}
        found |= {name: beside(output, others[output.against]) for name, output in compared.items()}
        steering = {name: batch.extras[name] for name in self.algorithm.steers if name in batch.extras}
        given: PolicyOutput = policy(read_as.input_ids, read_as.mask(mask), batch.temperature, found, self.critic, steering)
        return PolicyOutput(
            read_as.at_rows(given.logprobs),
            {name: read_as.at_rows(values) for name, values in given.outputs.items()},
            None if given.values is None else read_as.at_rows(given.values),
        )

    @torch.no_grad()
    def _logits(self, slot: str, batch: ScoredRollout, mask: Tensor) -> Callable[[slice], Tensor]:
        """Logits of a reference before the selected tokens, which come in the same order whatever is read before them."""
        read_as = batch.as_read(slot)
        return self.algorithm.references[slot].logits(self.policy, read_as.input_ids, read_as.mask(mask), batch.temperature)

    def per_token(self, scored: ScoredRollout, compute: ByName) -> dict[str, Tensor]:
        """See `Networks.per_token`; all ranks make as many passes, since a strategy that shards weights gathers them in each."""
        return self.fitting.run(scored.sequences().to("cpu"), lambda cuts: self._computed(scored, cuts, compute))

    @torch.no_grad()
    def _computed(self, scored: ScoredRollout, cuts: list[Tensor], compute: ByName) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        lengths, of_engine = scored.lengths.cpu(), scored.rollout_logprobs
        for rows in split_to(cuts, self.adapter.largest(len(cuts))):
            micro = scored.select(rows).padded(int(lengths[rows].max())) if len(rows) else dummy_batch(scored)
            for name, values in compute(micro.to(self.device)).items():
                like = of_engine if values.is_floating_point() else values.new_empty(0, device=of_engine.device)
                whole = found.setdefault(name, like.new_zeros((*of_engine.shape, *values.shape[2:])))
                if len(rows):
                    whole[rows, : values.shape[1]] = values.to(whole)
        return found

    @property
    def warms_up(self) -> bool:
        """The present rollout trains the critic alone."""
        critic = self.algorithm.critic
        return critic is not None and self.rollout < critic.warmup_rollouts

    @property
    def rollout(self) -> int:
        """The number of the present rollout in the run, from 0."""
        return self.module.trainer.current_epoch

    @property
    def passes(self) -> range:
        """Numbers of the passes of policy and critic together over the present rollout, counted from 0."""
        return range(0 if self.warms_up else self.algorithm.epochs)

    @property
    def critic_passes(self) -> range:
        """Numbers of the passes of the critic alone, which come after the joint ones and in place of them while the critic warms up."""
        critic = self.algorithm.critic
        return range(len(self.passes), self.algorithm.epochs + critic.extra_epochs) if critic is not None else range(0)

    def minibatches(self, batch: TrainingBatch, passes: range) -> Iterator[TrainingBatch]:
        """Minibatches of the present rollout, of whole groups or of rows, shuffled anew in each pass."""
        return minibatches_of(batch, passes, self.algorithm, (self.seed, self.rollout))

    def update(self, minibatch: TrainingBatch, limits: Limits, old_is_present: bool = False) -> bool:
        """One optimizer step, whose own log-probs may be the old ones; False if the rest of the rollout is to be left: KL is too large."""
        with compared_at_hand(self.policy, self.algorithm, self.algorithm.outputs):
            return self._update(minibatch, limits, old_is_present)

    def _update(self, minibatch: TrainingBatch, limits: Limits, old_is_present: bool) -> bool:
        algorithm, adapter, ledger = self.algorithm, self.adapter, self.ledger
        before = Minibatch(minibatch, PolicyOutput(minibatch.old_logprobs), self.steps, adapter)
        minibatch = prepared(before, algorithm, lambda rows: current_output(rows, algorithm.outputs, self))
        loss = StepLoss(terms_of(algorithm), minibatch, adapter)
        if loss.empty:
            ledger.add("skipped_steps", 1 / adapter.world_size, reduce="sum")
            return True
        rows = loss.rows_of(minibatch)
        ledger.add_report(loss.left_out(minibatch))
        fresh = bool((rows.policy_version == self.steps).all())

        def loss_of(micro: TrainingBatch) -> MicroBatchLoss:
            output = self.outputs(micro, loss.tokens(micro), algorithm.outputs)
            return loss.share(replace(micro, old_logprobs=output.logprobs.detach()) if old_is_present else micro, output)

        step = self.step_on(rows, loss_of, self._too_far)
        # to look at the numbers is to wait for the device
        if fresh:
            ledger.add_report(self._first_pass.check(step.statistics, limits))
        if not step.made:
            ledger.add("stopped_early", 1 / adapter.world_size, reduce="sum")
            return False
        self.move(algorithm.references.values())
        return True

    def _too_far(self, step: StatisticsLedger) -> bool:
        """Whether KL(old || new), mean over tokens of all ranks, exceeds 1.5 times its limit, by the statistics of this rank's share."""
        if (limit := self.algorithm.stop_kl) is None:
            return False
        kl, tokens = self.adapter.total(torch.tensor(step.local("approx_kl"), dtype=torch.float64)).tolist()
        return bool(kl > 1.5 * limit * tokens)

    def update_critic(self, minibatch: TrainingBatch) -> Step | None:
        """One optimizer step of the critic alone: the policy keeps its weights, and its optimizer state. None: no token has a value."""
        part, network, policy = self.algorithm.critic, self.critic, self.policy
        if part is None or network is None:
            return None
        loss = StepLoss([ValueTerm(part)], minibatch, self.adapter)
        if loss.empty:
            return None
        unmoved = [p for p in policy.parameters() if p.requires_grad]

        def loss_of(micro: TrainingBatch) -> MicroBatchLoss:
            read_as = micro.as_read()
            values = read_as.at_rows(policy.values(read_as.input_ids, read_as.mask(loss.tokens(micro)), network))
            found = loss.share(micro, PolicyOutput(logprobs=torch.zeros_like(values), values=values))
            return found._replace(loss=found.loss + self.adapter.zero_loss(unmoved))

        with self.adapter.frozen(self.optimizer, [POLICY_GROUP]):
            return self.step_on(loss.rows_of(minibatch), loss_of)


def minibatches_of(batch: TrainingBatch, passes: range, algorithm: Algorithm, seed: tuple[int, int]) -> Iterator[TrainingBatch]:
    """Minibatches of whole groups or of rows, as the algorithm has them, shuffled anew in each pass; the same number on every rank."""
    unit = batch.group if algorithm.minibatch_of == "groups" else torch.arange(len(batch))
    for number in passes:
        generator = torch.Generator().manual_seed(row_seed(*seed, number))
        for rows in minibatches(unit, algorithm.minibatches, generator):
            yield batch.select(rows)


class FirstPassCheck:
    """Compares the log-probs of every first pass over a rollout with the engine's; only the first one of a run can warn."""

    _seen = False

    def check(self, step: StatisticsLedger, limits: Limits) -> Report:
        """The differences of a first pass; a warning if rounding does not explain those of the run's first one.

        Its rows were sampled with the present weights: a sampler may hand on rows of an older policy, whose log-probs differ.
        """
        report = Report()
        total, tokens = step.local("engine/difference")
        if not tokens:
            return report
        far, largest = step.local("engine/far")[0], step.local("engine/largest")[0]
        report.add("ratio/first_pass_deviation", largest, reduce="max")
        report.add("ratio/first_pass_mean", total / tokens)
        report.add("ratio/first_pass_far", far / tokens)
        found = Agreement(tokens, total / tokens, far / tokens, largest)
        if not self._seen and not found.within(limits):
            warnings.warn(
                f"the engine's log-probs are not the trainer's: on the first pass, with unchanged weights, {found.against(limits)}. "
                "Compare the engine's weights, temperature and precision with the trainer's",
                stacklevel=4,
            )
        self._seen = True
        return report
