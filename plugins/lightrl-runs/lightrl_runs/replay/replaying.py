"""The module of a run that learns once more from a recorded rollout, with the run's own code for everything but the rollout."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.parts.engine import PolicyWeights, Request, Result, RolloutEngine, Sampling
from lightrl.policy.policy import Policy
from lightrl.training.online.networks import NO_OUTPUTS, Outputs
from lightrl.training.online.policy_learner import PolicyLearner, minibatches_of
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import PolicyModule
from lightrl.training.steps.fitting_passes import FittingPasses
from lightrl.training.steps.learner import LossOf, R, Step, Veto
from lightrl.types import PolicyOutput, ScoredRollout, TrainingBatch
from lightrl_runs.records.record import Record, rows_of
from lightrl_runs.replay.outcome import Gradients, Pulls

ROW = "replay/row"
"""Name of the extra with which each row knows its number in the rollout."""
SHARE = "replay/rank"
"""Name of the extra with the rank that made the row."""


class RecordedEngine(RolloutEngine):
    """Stands in for the engine that sampled a recorded rollout."""

    def __init__(self, exact_logprobs: bool, comparable_logprobs: bool, in_process: bool) -> None:
        """All of the engine that sampled."""
        self.exact_logprobs, self.comparable_logprobs, self.in_process = exact_logprobs, comparable_logprobs, in_process
        self.sampling = Sampling()

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Nothing is sampled from them."""

    def submit(self, requests: Sequence[Request]) -> None:
        raise RuntimeError("a recorded rollout is replayed, and a replay generates nothing")

    def results(self) -> list[Result]:
        raise RuntimeError("a recorded rollout is replayed, and a replay generates nothing")

    def forget(self, episodes: Collection[int]) -> None:
        """Nothing is kept."""


class ReplayingLearner(PolicyLearner):
    """Keeps the gradients of the steps on recorded rows."""

    gradients: Gradients
    pulls: Pulls

    def minibatches(self, batch: TrainingBatch, passes: range) -> Iterator[TrainingBatch]:
        """The minibatches of all ranks put together, each cut as its rank has cut it."""
        return minibatches_of_ranks(batch, passes, self.algorithm, (self.seed, self.rollout))

    def step_on(self, batch: R, loss_of: LossOf[R], veto: Veto | None = None) -> Step:
        """As in a run; the policy's gradient is kept before it is scaled down, where one process has all of it.

        The critic's own steps have no veto.
        """
        if veto is None or self.adapter.world_size > 1:
            return super().step_on(batch, loss_of, veto)

        def look(statistics: Any) -> bool:
            moved = [self.adapter.moved(p) for p in self.policy.parameters() if p.requires_grad]
            parts = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in moved]
            self.gradients.add(torch.cat([part.reshape(-1).cpu().float() for part in parts]))
            return veto(statistics)

        return super().step_on(batch, loss_of, look)

    @property
    def fitting(self) -> FittingPasses:
        """As in a run, but without a second attempt: what is kept of each micro-batch would count twice."""
        return FittingPasses(self.budget, self.policy.longest_packed, restarts=False)

    def outputs(self, batch: ScoredRollout, mask: Tensor, read: Outputs = NO_OUTPUTS) -> PolicyOutput:
        """As in a run; the gradient of each log-prob is kept."""
        output = super().outputs(batch, mask, read)
        if output.logprobs.requires_grad:
            rows, pulls = batch.extras[ROW].long(), self.pulls
            output.logprobs.register_hook(lambda gradient: pulls.add(rows, mask, gradient))  # type: ignore[no-untyped-call]
        return output


class Replaying(PolicyOptimization):
    """Takes the rows of a record in place of a rollout; no prompt is drawn, no completion is generated, no reward is asked."""

    learner_class = ReplayingLearner
    learner: ReplayingLearner
    records: Sequence[Record] = ()
    kept_state: frozenset[str] = frozenset()
    """Slots of the algorithm whose parts take the state that the checkpoint has of them; the others begin anew."""

    def replay(self, records: Sequence[Record], kept_state: frozenset[str]) -> None:
        """Take what is to be replayed; the parts in the slots of `kept_state` are those of the run."""
        self.records, self.kept_state = records, kept_state

    def rollout_phase(self) -> ScoredRollout:
        """The recorded rows of this rank; in one process, those of all ranks."""
        world = self.learner.adapter.world_size
        if world not in (1, len(self.records)):
            raise ValueError(
                f"trainer.devices: the record is of {len(self.records)} ranks, which {world} processes cannot share: use 1 of them"
            )
        own = self.records if world == 1 else [self.records[self.learner.adapter.rank]]
        rows = numbered(own)
        self.learner.gradients, self.learner.pulls = Gradients(), Pulls(len(rows), rows.width)
        return rows.to(self.device) if self.records[0].notes.device != "cpu" else rows

    def attach(self, policy: Policy) -> None:
        """See `PolicyModule.attach`; there are no prompts that ranks, rewards or sampler would have to suit."""
        PolicyModule.attach(self, policy)

    def on_fit_start(self) -> None:
        """Neither engine nor environment nor rewards are started."""

    def on_train_start(self) -> None:
        """No validation comes before."""

    def configure_model(self) -> None:
        """As in a run; another algorithm may leave the critic of the checkpoint alone."""
        super().configure_model()
        self.strict_loading = False

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take weights, optimizer, rewards and counts of the run, and the state of the parts that are the run's."""
        PolicyModule.on_load_checkpoint(self, checkpoint)
        state, rank = checkpoint["lightrl"], self.trainer.global_rank
        of_rank = state["algorithm_per_rank"][rank % len(state["algorithm_per_rank"])]
        # a sampler has nothing to do here
        kept = self.kept_state - {"sampler"}
        self.algorithm.load_state_dict({slot: part for slot, part in (state["algorithm"] | of_rank).items() if slot in kept})
        self.collector.rewards.load_state_dict(state["rewards"])
        self.learner.progress.load_state_dict(state["progress"])
        for optimizer in checkpoint["optimizer_states"]:
            _keep_groups(optimizer, self.learner.group_count)


def minibatches_of_ranks(batch: TrainingBatch, passes: range, algorithm: Algorithm, seed: tuple[int, int]) -> Iterator[TrainingBatch]:
    """The minibatches of all ranks put together, each cut as its rank has cut it; see `minibatches_of`."""
    ranks = batch.extras[SHARE].long()
    shares = [batch.select((ranks == rank).nonzero()[:, 0]) for rank in torch.unique(ranks).tolist()]
    cuts = [minibatches_of(share, passes, algorithm, seed) for share in shares]
    yield from (TrainingBatch.concat(parts) for parts in zip(*cuts, strict=True))


def numbered(records: Sequence[Record]) -> ScoredRollout:
    """The rows of records, each of which knows its number and its rank."""
    rows = rows_of(records)
    ranks = [record.notes.rank for record in records for _ in range(len(record.scored))]
    return replace(rows, extras=rows.extras | {ROW: torch.arange(len(rows)), SHARE: torch.tensor(ranks, dtype=torch.long)})


def _keep_groups(optimizer: dict[str, Any], count: int) -> None:
    """Forget what an optimizer remembers of the groups beyond a number: those of a critic that is not trained here."""
    groups = optimizer["param_groups"][:count]
    numbers = {number for group in groups for number in group["params"]}
    optimizer["param_groups"] = groups
    optimizer["state"] = {number: state for number, state in optimizer["state"].items() if number in numbers}
