"""What all modules share: the policy, its optimizer, steps made of micro-batches, and evaluation by sampling."""

from __future__ import annotations

import datetime
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.ops.batching import micro_batches, split_to
from lightrl.parts.base import own
from lightrl.parts.engine import RolloutEngine, Sampling
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.rewards.reward_set import RewardSet
from lightrl.strategies.adapter import StrategyAdapter
from lightrl.strategies.adapter_choice import adapter_for, register_strategies
from lightrl.strategies.checkpoint_io import guard
from lightrl.training.evaluation import Evaluation
from lightrl.training.evaluation_report import report_samples
from lightrl.training.precision import check_precision
from lightrl.training.schedule import check_schedule, planned_steps
from lightrl.training.statistics import StatisticsLedger
from lightrl.types import Prompt, Rollout, Rows

register_strategies()

ONE_THREAD_BELOW = 2_000_000
"""Policies smaller than this run on one CPU thread: a second one makes them slower on a busy machine."""


class PolicyModule(LightningModule):
    """A policy in manual optimisation, evaluated by sampling completions and scoring them."""

    product: ClassVar[Literal["policy", "reward model"]] = "policy"
    """What a run makes and `lightrl export` writes."""

    def __init__(
        self,
        policy: PolicySource,
        rewards: dict[str, Reward],
        engine: RolloutEngine,
        micro_batch_tokens: int | None,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        max_grad_norm: float | None,
        evaluation: Evaluation,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            rewards: what a completion is worth, by name.
            engine: who generates completions.
            micro_batch_tokens: padded tokens per forward and backward pass; None: all at once.
            optimizer: of all trainable parameters.
            lr_scheduler: stepped after every optimizer step; None: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; None: never.
            evaluation: how validation and test draw completions.
        """
        super().__init__()
        if micro_batch_tokens is not None and micro_batch_tokens < 1:
            raise ValueError(f"micro_batch_tokens must be 1 or more, or null for all at once; got {micro_batch_tokens}")
        self.automatic_optimization = False
        self.policy_source, self.engine, self.evaluation = own(policy), own(engine), evaluation
        self.rewards = RewardSet(rewards) if rewards else None
        if self.rewards is not None:
            evaluation.correct_reward(self.rewards.rewards)
        self.micro_batch_tokens, self.max_grad_norm = micro_batch_tokens, max_grad_norm
        self._optimizer, self._lr_scheduler = optimizer, lr_scheduler
        self.policy: Policy = None  # type: ignore[assignment]
        self.ledger, self._evaluation_ledger = StatisticsLedger(), StatisticsLedger()
        self.numbers: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self.on_phase: Callable[[str], None] = lambda phase: None
        self.samples: Rollout | None = None

    @abstractmethod
    def steps_per_epoch(self, prompts: int | None) -> int:
        """Training steps in one Lightning epoch, given the number of training prompts (None: endless)."""

    @classmethod
    def network(cls, policy: Policy) -> Any:
        """What is trained, and stored under the name `policy`.

        Args:
            policy: as its source has built it.
        """
        return policy

    @property
    def adapter(self) -> StrategyAdapter:
        """The strategy's way of doing what differs between strategies."""
        if not hasattr(self, "_adapter"):
            self._adapter = adapter_for(self.trainer, self)
        return self._adapter

    def configure_model(self) -> None:
        """Build the policy and what belongs to it once, and let the strategy cut them over the ranks."""
        guard(self.trainer.strategy, self)
        # an evaluation has no use for a critic's weights
        self.strict_loading = self.trainer.state.fn == "fit"
        if self.policy is None:
            self.build_models()
            self.adapter.shard(*self.children())

    def build_models(self) -> None:
        """Build the policy, whole on this rank, and measure the prompts with its tokenizer."""
        self.policy = self.policy_source.build()
        check_precision(str(self.trainer.precision), self.policy.model.dtype)
        self._check_sampling()
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and hasattr(data, "measure"):
            self.measure_prompts(data)
        if self.trainer.num_devices == 1 and self.device.type == "cpu":
            self._choose_threads()

    def measure_prompts(self, data: Any) -> None:
        """Have the data drop or refuse the prompts that leave no room for a completion."""
        positions = self.policy.max_positions
        data.measure(self.policy.encode, None if positions is None else positions - self.engine.sampling.max_new_tokens)

    def configure_optimizers(self) -> Any:
        """One optimizer over the parameter groups, and its schedule."""
        return self.optimizer_over(self.parameter_groups())

    def optimizer_over(self, groups: list[dict[str, Any]]) -> Any:
        """The optimizer of these parameter groups, with its schedule if there is one, as Lightning takes it."""
        optimizer = self._optimizer(groups)  # type: ignore[arg-type]
        if self._lr_scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": self._lr_scheduler(optimizer)}

    @property
    def group_count(self) -> int:
        """How many `parameter_groups` there will be, known before anything is built."""
        return 1

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer."""
        return [{"params": [p for p in self.policy.parameters() if p.requires_grad]}]

    def forward(self, compute: Callable[[Any], Any], batch: Any) -> Any:
        """What `compute` makes of a batch: strategies that wrap the module have hooks around this call."""
        return compute(batch)

    def step_on(
        self,
        batch: Rows,
        lengths: Tensor,
        loss_of: Callable[[Any], Tensor],
        veto: Callable[[], bool] = lambda: False,
        sequences: int = 1,
        cut: Callable[[Tensor, int | None], list[Tensor]] = micro_batches,
    ) -> bool:
        """One optimizer step on a batch, whose gradient does not depend on how it is cut into micro-batches.

        Args:
            batch: rows of this rank.
            lengths: `[N]` int64, tokens of each row that matter.
            loss_of: this micro-batch's share of the sum over the step and all ranks.
            veto: asked after the last backward, with the same answer on all ranks; True drops the gradients and the step.
            sequences: rows of tokens in one row of the batch: a pair has two.
            cut: which rows make a micro-batch, given their lengths and the budget.

        Returns:
            Whether the step was made.
        """
        cuts = cut(lengths.cpu(), None if self.micro_batch_tokens is None else self.micro_batch_tokens // sequences)
        cuts = split_to(cuts, self.adapter.largest(len(cuts)))
        for i, rows in enumerate(cuts):
            # a rank with fewer micro-batches than the others takes part with a row that weighs nothing
            chosen = rows if len(rows) else torch.zeros(1, dtype=torch.long)
            micro = batch.select(chosen).padded(int(lengths[chosen].max())).to(self.device)
            loss = self.adapter.forward(loss_of, micro)
            self.adapter.backward(loss if len(rows) else loss * 0.0, last=i == len(cuts) - 1)
        optimizer: Any = self.optimizers()
        if veto():
            self.adapter.discard(optimizer)
            return False
        self.ledger.add("lr", optimizer.param_groups[0]["lr"])
        norm = self.adapter.step(optimizer, self.max_grad_norm)
        self.ledger.add("grad_norm", norm)
        if not math.isfinite(norm):
            self.ledger.add("nonfinite_gradients", 1 / self.adapter.world_size, reduce="sum")
        self.ledger.add("optimizer_steps", 1 / self.adapter.world_size, reduce="sum")
        scheduler: Any = self.lr_schedulers()
        if scheduler is not None:
            scheduler.step()
        return True

    def log_ledger(self) -> dict[str, float]:
        """Log everything that was reported since the last time, reduced over ranks, and give it back."""
        numbers = self.reduced_ledger()
        self.log_dict(numbers, on_step=False, on_epoch=True, batch_size=1)
        return numbers

    def reduced_ledger(self) -> dict[str, float]:
        """Everything that was reported since the last time, seconds in each phase included, reduced over ranks."""
        for name, seconds in self._seconds.items():
            self.ledger.add(f"perf/{name}_s", seconds, reduce="max")
        self._seconds.clear()
        self.numbers = self.ledger.reduce(self.adapter.gather)
        return self.numbers

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show which phase a long step is in, and log the seconds spent in it since the last log as `perf/{name}_s`."""
        self.on_phase(name)
        started = time.perf_counter()
        yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """How far the run has come, for those who look at the checkpoint without the run."""
        metrics = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.total
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        checkpoint["run"] = {"metrics": metrics, "steps": progress.processed, "date": now}

    def on_fit_start(self) -> None:
        """Let rewards that need processes of their own start them."""
        if self.rewards is not None:
            self.rewards.start()

    def teardown(self, stage: str) -> None:
        """End what rewards have started."""
        if self.rewards is not None:
            self.rewards.close()

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps of one training step, at most."""
        return 1

    def on_train_start(self) -> None:
        """Evaluate the policy before its first step, once the schedule has been found long enough."""
        check_schedule(self.lr_schedulers(), planned_steps(self.trainer, self.trainer.num_training_batches, self.steps_per_batch))
        optimizer: Any = self.optimizers()
        loop = self.trainer.fit_loop.epoch_loop
        if self.evaluation.before_training and self.trainer.global_step == 0 and self.trainer.enable_validation:
            self.trainer.validating = True
            loop.val_loop.run()
            self.trainer.training = True
            optimizer.zero_grad()

    def evaluation_step(self, prompts: list[Prompt]) -> Rollout:
        """Complete and score held-out prompts; the engine's own stream of random numbers is left where it was."""
        if self.rewards is None:
            raise ValueError("model.rewards is empty, so completions of the validation prompts cannot be scored: name a reward")
        self.on_phase("evaluating")
        state = self.engine.state_dict()
        with self.adapter.gathered_weights():
            self.engine.sync(self.policy, self.trainer.global_step)
            rollout = self.engine.generate(prompts, self.evaluation.samples, self._evaluation_sampling())
        self.engine.load_state_dict(state)
        scoring = self.rewards.submit(rollout)
        scored = scoring.result()
        # one completion per prompt has nothing to be normalised by
        token_rewards, _ = self.rewards.token_rewards(scored, normalized=False)
        ledger = self._evaluation_ledger
        ledger.add("reward", torch.where(scored.scorable, token_rewards.sum(1), torch.nan))
        ledger.add_all({**self.rewards.statistics(scored, normalized=False), **scoring.statistics()}, scored.response_mask)
        judge = self.evaluation.correct_reward(self.rewards.rewards)
        report_samples(ledger, scored, self.evaluation, judge, self.rewards.rewards[judge])
        report_lengths(ledger, scored)
        return scored

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of validation prompts."""
        samples = self.evaluation_step(batch.prompts)
        self.samples = samples if batch_idx == 0 else self.samples

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Evaluate one batch of test prompts."""
        self.evaluation_step(batch.prompts)

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, Any]]:
        """Complete one batch of prompts; one JSON value per completion."""
        scored = self.evaluation_step(batch.prompts)
        parts = {name: part.tolist() for name, part in scored.reward_parts.items() if part.dim() == 1}  # type: ignore[attr-defined]
        return [
            {
                **prompt.columns,
                "id": prompt.id,
                "prompt": prompt.text if prompt.text is not None else list(prompt.messages or ()),
                "answer": prompt.answer,
                "completion": scored.completions[i],
                "finish_reason": scored.finish_reason[i],
                "tokens": int(scored.response_lengths[i]),
                "rewards": {name: values[i] for name, values in parts.items()},
            }
            for i, prompt in enumerate(scored.prompts)
        ]

    def on_validation_epoch_end(self) -> None:
        """Log what validation found as `val/...`."""
        self._log_evaluation("val")

    def on_test_epoch_end(self) -> None:
        """Log what the test found as `test/...`."""
        self._log_evaluation("test")

    def _log_evaluation(self, stage: str) -> None:
        numbers = self._evaluation_ledger.reduce(self.adapter.gather)
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)

    def _evaluation_sampling(self) -> Sampling:
        wanted = {name: getattr(self.evaluation, name) for name in ("temperature", "top_p", "max_new_tokens")}
        return replace(self.engine.sampling, **{name: value for name, value in wanted.items() if value is not None})

    def _check_sampling(self) -> None:
        positions, new = self.policy.max_positions, self.engine.sampling.max_new_tokens
        if positions is not None and new >= positions:
            raise ValueError(
                f"model.engine.max_new_tokens is {new}, but the policy takes rows of {positions} tokens at most, prompt included: "
                f"set it below {positions}"
            )

    def _choose_threads(self) -> None:
        size = sum(p.numel() for p in self.policy.parameters())
        if size < ONE_THREAD_BELOW and torch.get_num_threads() > 1:
            torch.set_num_threads(1)
            self.print(f"The policy has {size:,} parameters: using one CPU thread, which is faster at this size.")


def report_lengths(ledger: StatisticsLedger, rollout: Rollout) -> None:
    """Lengths and finish reasons of completions, under the names of the field."""
    lengths = rollout.response_lengths.double()
    ledger.add("completions/mean_length", lengths)
    ledger.add("completions/min_length", lengths, reduce="min")
    ledger.add("completions/max_length", lengths, reduce="max")
    ledger.add("completions/clipped_ratio", rollout.truncated.double())
