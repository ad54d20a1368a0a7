"""Preference optimisation: the policy learns from given completions that are better and worse, or good and bad."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable

from lightrl.parts.description import own
from lightrl.parts.objective import LabelledObjective, Objective, PairObjective
from lightrl.parts.reference import FrozenReference, ModuleReference, Reference
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.training.offline.completion_passes import CompletionPasses
from lightrl.training.offline.encoded_rows import OfflineRows
from lightrl.training.offline.labelled_batch import LabelledBatch
from lightrl.training.offline.objective_batch import ObjectiveBatch
from lightrl.training.offline.offline_module import OfflinePolicyModule
from lightrl.training.offline.pair_batch import PairBatch
from lightrl.training.offline.preference_columns import PreferenceColumns
from lightrl.training.offline.reference_cache import ReferenceCache, cache_key
from lightrl.training.reports.statistics import Report, StatisticsLedger
from lightrl.training.steps.learner import MicroBatchLoss
from lightrl.types import Prompt


class PreferenceOptimization(OfflinePolicyModule):
    """Trains a policy on completions that somebody has compared or labelled, without sampling any.

    loss = (1 / N) sum over the rows of the step and of all ranks of the objective's loss; a row is a pair, or one labelled
    completion. One training step is one optimizer step; an epoch passes over all rows once.
    """

    def __init__(
        self,
        policy: PolicySource,
        objective: Objective,
        chosen: str = "chosen",
        rejected: str = "rejected",
        completion: str = "completion",
        label: str = "label",
        reference: Reference = FrozenReference(),
        cache: str | None = None,
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-6, weight_decay=0.0),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            objective: the loss of the completions.
            chosen: the column with the better completion, for objectives on pairs.
            rejected: the column with the worse one.
            completion: the column with the completion, for objectives on labelled completions.
            label: the column that says whether it is good: true or false.
            reference: which policy is the anchor; built only if the objective needs it.
            cache: a folder that keeps the reference's log-probs, so that they are computed once for all epochs and runs; null computes
                them in every step.
            optimizer: of the policy.
            **kwargs: the arguments of `OfflinePolicyModule`.

        Raises:
            ValueError: a size below 1, an objective of no known form, or a cache for a reference that moves.
        """
        super().__init__(policy, optimizer=optimizer, **kwargs)
        self.objective, self.reference = objective, own(reference, "model.reference")
        self._batches = self._checked(cache)
        self.columns, self.cache_folder = PreferenceColumns(chosen, rejected, completion, label), cache
        self._cache: ReferenceCache | None = None

    def attach(self, policy: Policy) -> None:
        """See `PolicyModule.attach`; the reference must suit the policy."""
        super().attach(policy)
        if self._uses_reference:
            self.reference.check(policy)

    def build_models(self) -> None:
        """Build policy and reference, and open the cache."""
        super().build_models()
        if self._uses_reference and self.trainer.state.fn != "predict":
            self.reference.build(self.policy)
            if self.cache_folder is not None and isinstance(self.reference, ModuleReference):
                with self.reference.anchor(self.policy) as anchor:
                    self._cache = ReferenceCache(self.cache_folder, cache_key(anchor, str(self.trainer.precision)))

    def longest_sequence(self, prompt: Prompt) -> list[int]:
        """The longest of the row's completions with its prompt, or of those that may be sampled."""
        rows = self._batches.sequences_of(prompt, self.columns, self.policy)
        if self.collector.rewards is not None:
            rows.append([*self.policy.encode(prompt), *[0] * self.collector.engine.sampling.max_new_tokens])
        return max(rows, key=len)

    def learn(self, prompts: list[Prompt]) -> None:
        """Make one optimizer step on the completions of these prompts, and let the reference follow."""
        batch = self._ready(prompts, self.ledger)

        def loss_of(micro: OfflineRows) -> MicroBatchLoss:
            per_row, statistics = batch.losses(micro)
            report = Report()
            report.add_all(statistics, micro.lengths)
            return MicroBatchLoss(per_row.sum() / self.batch_size, {"loss": per_row.detach().sum() / self.batch_size}, report.entries)

        self.descend(batch.rows, loss_of)
        self.ledger.add("tokens", float(batch.tokens()), reduce="sum")
        if self._uses_reference:
            self.learner.move([self.reference])

    def evaluate_rows(self, prompts: list[Prompt]) -> list[Prompt]:
        """Report the objective's loss on held-out rows; the prompts that their completions answer can be completed."""
        batch = self._ready(prompts, self.collector.held_out)
        per_row, statistics = batch.evaluate()
        self.collector.held_out.add("loss", per_row)
        self.collector.held_out.add_all(statistics, batch.rows.lengths)
        return list(batch.rows.prompts)

    def derived(self, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers with differences of means."""
        return self._batches.with_differences(numbers)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """State of the parts and the rollouts, and how far the run has come; reference log-probs are on the disk before that."""
        super().on_save_checkpoint(checkpoint)
        self._write_cache()
        checkpoint["lightrl"] = {
            "objective": self.objective.state_dict(),
            "reference": self.reference.state_dict(),
            "rollouts": self.learner.adapter.gather(self.collector.rollouts.state_dict()),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` gave."""
        super().on_load_checkpoint(checkpoint)
        state = checkpoint["lightrl"]
        self.objective.load_state_dict(state["objective"])
        self.reference.load_state_dict(state["reference"])
        self.collector.rollouts.load_state_dict(state["rollouts"][self.trainer.global_rank % len(state["rollouts"])])

    def on_train_epoch_end(self) -> None:
        """Keep the log-probs of the reference that are new."""
        self._write_cache()

    def teardown(self, stage: str) -> None:
        """End what rewards have started, and keep the log-probs of the reference that are new."""
        self._write_cache()
        super().teardown(stage)

    @property
    def _uses_reference(self) -> bool:
        return "ref_logprobs" in self.objective.needs

    def _ready(self, prompts: list[Prompt], ledger: StatisticsLedger) -> ObjectiveBatch[Any, Any]:
        """Rows of this rank, with everything their losses need that has no gradient."""
        passes = CompletionPasses(self.learner, self.reference if self._uses_reference else None, self._cache, ledger)
        batch = self._batches(passes, self.objective, prompts, self.columns, self.max_length)
        with self.ledger.phase("reference"):
            batch.prepare()
        return batch

    def _write_cache(self) -> None:
        if self._cache is not None and self.trainer.is_global_zero:
            self._cache.write()

    def _checked(self, cache: str | None) -> type[ObjectiveBatch[Any, Any]]:
        """The form of the batches, once the objective is found to have one and to fit the other arguments."""
        name, needs = type(self.objective).__name__, sorted(self.objective.needs - {"ref_logprobs"})
        pairs, labelled = isinstance(self.objective, PairObjective), isinstance(self.objective, LabelledObjective)
        if not pairs and not labelled:
            raise ValueError(f"model.objective: {name} is neither a PairObjective nor a LabelledObjective")
        if isinstance(self.objective, LabelledObjective) and self.objective.needs_mismatched and self.batch_size < 2:
            raise ValueError(f"model.batch_size must be 2 or more: {name} needs the completions of other prompts")
        if needs:
            raise ValueError(
                f"model.objective: {name} needs {needs}, and an objective is given log-probs of policy and reference alone: it may need "
                "ref_logprobs"
            )
        if cache is not None and not isinstance(self.reference, ModuleReference):
            raise ValueError(
                f"model.cache names the log-probs by the weights of the reference, and {type(self.reference).__name__} has none here: "
                "set model.cache to null, or take FrozenReference"
            )
        if cache is not None and type(self.reference).moves_at is not Reference.moves_at:
            raise ValueError(
                f"model.cache keeps the log-probs of a reference that never changes, and {type(self.reference).__name__} moves: "
                "set model.cache to null, or take FrozenReference"
            )
        return PairBatch if pairs else LabelledBatch
