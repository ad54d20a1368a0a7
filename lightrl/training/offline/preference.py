"""Preference optimisation: the policy learns from given completions that are better and worse, or good and bad."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from jsonargparse import lazy_instance
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.parts.base import own, unpack
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.objective import LabelledObjective, Objective, PairObjective
from lightrl.parts.reference import FrozenReference, Reference
from lightrl.parts.reward import Reward
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine
from lightrl.training.evaluation import Evaluation
from lightrl.training.offline.offline_batch import Columns, LabelledBatch, OfflineBatch, PairBatch
from lightrl.training.offline.reference_cache import ReferenceCache, cache_key, row_keys
from lightrl.training.offline.sequence_logprobs import TokenLogProbs, sequence_logprobs
from lightrl.training.optimizer_step import MicroBatchLoss
from lightrl.training.policy_module import PolicyModule
from lightrl.training.statistics import Report, StatisticsLedger
from lightrl.types import Prompt


class PreferenceOptimization(PolicyModule):
    """Trains a policy on completions that somebody compared or judged, without sampling any.

    loss = (1 / N) sum over the rows of the step and of all ranks of the objective's loss; a row is a pair, or one labelled
    completion. One training step is one optimizer step; an epoch passes over all rows once.
    """

    def __init__(
        self,
        policy: PolicySource,
        objective: Objective,
        batch_size: int = 64,
        chosen: str = "chosen",
        rejected: str = "rejected",
        completion: str = "completion",
        label: str = "label",
        max_length: int | None = None,
        reference: Reference = lazy_instance(FrozenReference),
        cache: str | None = None,
        rewards: dict[str, Reward] | None = None,
        engine: RolloutEngine = lazy_instance(TransformersEngine),
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-6, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: float | None = 1.0,
        evaluation: Evaluation = Evaluation(before_training=False),
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            objective: what the completions teach.
            batch_size: pairs, or labelled completions, per optimizer step over all ranks; at least 1.
            chosen: the column with the better completion, for objectives on pairs.
            rejected: the column with the worse one.
            completion: the column with the completion, for objectives on labelled completions.
            label: the column that says whether it is good: true or false.
            max_length: rows with more tokens of prompt, completion and EOS are dropped, or refused as `data.too_long` says; null: as many
                as the policy takes.
            reference: which policy is the anchor; built only if the objective needs it.
            cache: a folder that keeps the reference's log-probs, so that they are computed once for all epochs and runs; null computes
                them in every step.
            rewards: how sampled completions of the validation prompts are scored, by name; none: nothing is sampled.
            engine: who generates the completions of the evaluation.
            micro_batch_tokens: padded tokens per forward and backward pass; no influence on the gradient. null: all at once.
            optimizer: of the policy.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            evaluation: how validation and test draw completions.

        Raises:
            ValueError: a size below 1, an objective of no known form, or a cache for a reference that moves.
        """
        super().__init__(policy, rewards or {}, engine, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        if batch_size < 1 or (max_length is not None and max_length < 2):
            raise ValueError(
                f"model.batch_size must be 1 or more and model.max_length 2 or more, or null; got {batch_size} and {max_length}"
            )
        self.objective, self.reference = own(objective), own(reference)
        if isinstance(self.objective, LabelledObjective) and self.objective.needs_mismatched and batch_size < 2:
            raise ValueError(f"model.batch_size must be 2 or more: {type(self.objective).__name__} looks at other prompts' completions")
        if not isinstance(self.objective, (PairObjective, LabelledObjective)):
            raise ValueError(f"model.objective: {type(self.objective).__name__} is neither a PairObjective nor a LabelledObjective")
        unknown = sorted(self.objective.needs - {"ref_logprobs"})
        if unknown:
            raise ValueError(
                f"model.objective: {type(self.objective).__name__} needs {unknown}, and an objective is given log-probs of policy and "
                "reference alone: it may need ref_logprobs"
            )
        if cache is not None and type(self.reference).moves_at is not Reference.moves_at:
            raise ValueError(
                f"model.cache keeps the log-probs of a reference that never changes, and {type(self.reference).__name__} moves: "
                "set model.cache to null, or take FrozenReference"
            )
        self.batch_size, self.columns, self.max_length, self.cache_folder = (
            batch_size, Columns(chosen, rejected, completion, label), max_length, cache
        )  # fmt: skip
        self._cache: ReferenceCache | None = None

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Draw a batch of rows with their completions, and make one optimizer step on it."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        rows = self._ready(data.draw(self.batch_size // self.adapter.world_size), self.ledger)
        count = self.batch_size

        def loss_of(micro: Any) -> MicroBatchLoss:
            per_row, statistics = unpack(rows.loss(micro, self._token_logprobs))
            report = Report()
            report.add_all(statistics, micro.lengths)
            return MicroBatchLoss(per_row.sum() / count, {"loss": float(per_row.detach().sum()) / count}, report.entries)

        with self.phase("optimize"):
            self.step_on(rows.rows, rows.rows.lengths, loss_of, sequences=rows.sequences)
        self.ledger.add("tokens", float(rows.tokens()), reduce="sum")
        if self._uses_reference and self.reference.moves_at(self.trainer.global_step):
            with self.adapter.gathered_weights():
                self.reference.after_step(self.policy, self.trainer.global_step)
        self.numbers = rows.with_differences(self.reduced_ledger())
        self.log_dict(self.numbers, on_step=True, on_epoch=False, batch_size=1)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """Steps that pass over all rows once; an endless source has epochs of 1000 steps."""
        return 1000 if prompts is None else math.ceil(prompts / self.batch_size)

    def build_models(self) -> None:
        """Build policy and reference, and look whether the sizes fit the devices."""
        super().build_models()
        if self.batch_size % self.trainer.world_size:
            raise ValueError(f"model.batch_size is {self.batch_size}, which {self.trainer.world_size} ranks cannot share evenly")
        if self._uses_reference and self.trainer.state.fn != "predict":
            self.reference.build(self.policy)
            if self.cache_folder is not None:
                with self.reference.anchor(self.policy) as anchor:
                    self._cache = ReferenceCache(self.cache_folder, cache_key(anchor, str(self.trainer.precision)))

    def measure_prompts(self, data: Any) -> None:
        """Read every row's completions, and have the data drop or refuse the rows that are too long."""
        if getattr(data, "max_prompt_tokens", None) is not None:
            raise ValueError(
                "data.max_prompt_tokens is about prompts alone, and rows here are prompts with completions: set model.max_length instead"
            )
        positions = self.policy.max_positions
        data.measure(self._longest, min((b for b in (self.max_length, positions) if b is not None), default=None))

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of held-out rows, and sampled completions of their prompts if rewards score them."""
        asked = self._judge(batch.prompts)
        if self.rewards is not None:
            super().validation_step(PromptBatch(asked), batch_idx)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of test rows, and sampled completions of their prompts if rewards score them."""
        asked = self._judge(batch.prompts)
        if self.rewards is not None:
            super().test_step(PromptBatch(asked), batch_idx)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """State of the parts and the engine, and how far the run has come; reference log-probs are on the disk before the checkpoint is."""
        super().on_save_checkpoint(checkpoint)
        self._write_cache()
        checkpoint["lightrl"] = {
            "objective": self.objective.state_dict(),
            "reference": self.reference.state_dict(),
            "engine": self.adapter.gather(self.engine.state_dict()),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `on_save_checkpoint` gave."""
        state = checkpoint["lightrl"]
        self.objective.load_state_dict(state["objective"])
        self.reference.load_state_dict(state["reference"])
        self.engine.load_state_dict(state["engine"][self.trainer.global_rank % len(state["engine"])])

    def on_train_epoch_end(self) -> None:
        """Keep what was learnt of the reference."""
        self._write_cache()

    def teardown(self, stage: str) -> None:
        """End what rewards have started, and keep what was learnt of the reference."""
        self._write_cache()
        super().teardown(stage)

    @property
    def _uses_reference(self) -> bool:
        return "ref_logprobs" in self.objective.needs

    def _ready(self, prompts: list[Prompt], ledger: StatisticsLedger) -> OfflineBatch[Any, Any]:
        """Rows of this rank, with everything their losses need that has no gradient."""
        form: type[OfflineBatch[Any, Any]] = PairBatch if isinstance(self.objective, PairObjective) else LabelledBatch
        rows = form(self.policy, self.objective, prompts, self.columns, self.max_length)
        with self.phase("reference"):
            reference = partial(self._reference_logprobs, ledger) if self._uses_reference else None
            rows.look_ahead(self._without_gradient, reference, self.adapter.gather)
        return rows

    def _judge(self, prompts: list[Prompt]) -> list[Prompt]:
        """Report what the objective says of held-out rows; gives the prompts that their completions answer."""
        ledger = self._evaluation_ledger
        rows = self._ready(prompts, ledger)
        per_row, statistics = unpack(rows.judge(self._without_gradient))
        ledger.add("loss", per_row)
        ledger.add_all(statistics, rows.rows.lengths)
        asked: list[Prompt] = rows.rows.prompts
        return asked

    def _log_evaluation(self, stage: str) -> None:
        form = PairBatch if isinstance(self.objective, PairObjective) else LabelledBatch
        numbers = form.with_differences(self._evaluation_ledger.reduce(self.adapter.gather))
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)

    def _longest(self, prompt: Prompt) -> list[int]:
        """As many ids as the row needs room for."""
        form = PairBatch if isinstance(self.objective, PairObjective) else LabelledBatch
        rows = form.texts(prompt, self.columns, self.policy)
        if self.rewards is not None:
            rows.append([*self.policy.encode(prompt), *[0] * self.engine.sampling.max_new_tokens])
        return max(rows, key=len)

    def _token_logprobs(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        logprobs: Tensor = self.policy(input_ids, mask).logprobs
        return logprobs

    def _look_at_reference(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        with self.reference.anchor(self.policy) as anchor:
            logprobs: Tensor = anchor(input_ids, mask).logprobs
        return logprobs

    def _without_gradient(self, input_ids: Tensor, mask: Tensor, token_logprobs: TokenLogProbs | None = None) -> Tensor:
        """`[N]` log-probs of the completions, under the policy unless another is given; every rank calls it."""
        return sequence_logprobs(
            input_ids, mask, self.micro_batch_tokens, self.device, token_logprobs or self._token_logprobs, self.adapter.largest
        )

    def _reference_logprobs(self, ledger: StatisticsLedger, input_ids: Tensor, mask: Tensor, keep: bool = True) -> Tensor:
        """`[N]` log-probs of the completions under the reference, from the cache where it has them."""
        if self._cache is None or not keep:
            return self._without_gradient(input_ids, mask, self._look_at_reference)
        keys = row_keys(input_ids, mask)
        known = self._cache.get(keys)
        missing = torch.tensor([i for i, value in enumerate(known) if value is None], dtype=torch.long)
        found = torch.tensor([math.nan if value is None else value for value in known], dtype=torch.float64)
        # all ranks look, since some may have rows that are missing
        if self.adapter.largest(len(missing)):
            found[missing] = self._without_gradient(input_ids[missing], mask[missing], self._look_at_reference)
            # the next epoch gives a row to another rank
            for of_rank in self.adapter.gather([(keys[i], float(found[i])) for i in missing.tolist()]):
                self._cache.put(of_rank)
        ledger.add("reference/cached", torch.tensor([float(value is not None) for value in known]))
        return found

    def _write_cache(self) -> None:
        if self._cache is not None and self.trainer.is_global_zero:
            self._cache.write()
