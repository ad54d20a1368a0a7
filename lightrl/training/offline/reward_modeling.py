"""Reward modelling: a network learns from comparisons which completions people prefer."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from jsonargparse import lazy_instance
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from lightrl.data.loaders import PromptBatch
from lightrl.ops.batching import micro_batches, split_to
from lightrl.ops.comparison import bradley_terry
from lightrl.policy.policy import Policy
from lightrl.policy.reward_network import RewardNetwork
from lightrl.policy.source import PolicySource
from lightrl.rollout.transformers_engine import TransformersEngine
from lightrl.training.evaluation import Evaluation
from lightrl.training.offline.comparison_report import finished, report_calibration, report_comparisons, report_scores
from lightrl.training.offline.ranking_columns import RankingColumns, read_ranking
from lightrl.training.offline.rankings import Comparisons, RankingReader, Rankings
from lightrl.training.optimizer_step import MicroBatchLoss
from lightrl.training.policy_module import PolicyModule
from lightrl.training.precision import check_precision
from lightrl.training.statistics import Report
from lightrl.types import Prompt


class RewardModeling(PolicyModule):
    """Fits scores r to comparisons between completions of one prompt (Bradley-Terry).

    loss = (1 / P) sum over prompts (1 / C) sum over the prompt's C comparisons of
    -log sigmoid(r_better - r_worse - margin) + centring (r_better + r_worse)^2, with P over the whole optimizer step and all ranks.
    Of K ranked completions all K (K - 1) / 2 comparisons are made at once, and each completion is read once.

    r is a linear head on the trunk of the policy, read at the last token of the conversation, which closes the answer.

    Source: Ouyang et al. 2022 (InstructGPT), arXiv:2203.02155, eq. 1; margin: Touvron et al. 2023 (Llama 2), arXiv:2307.09288, eq. 2;
    centring: Eisenstein et al. 2023, arXiv:2312.09244, eq. 2.
    """

    product = "reward model"
    policy: RewardNetwork  # type: ignore[assignment]

    def __init__(
        self,
        policy: PolicySource,
        batch_size: int = 64,
        columns: RankingColumns = RankingColumns(),
        centring: float = 0.0,
        micro_batch_tokens: int | None = 8192,
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: float | None = 1.0,
    ) -> None:
        """
        Args:
            policy: whose trunk and tokenizer the reward model gets; its language-modelling head is left out.
            batch_size: prompts per optimizer step over all ranks; a multiple of their number.
            columns: where completions, ranks and margins stand in the data.
            centring: coefficient of the squared sum of two compared scores, which keeps scores around 0; 0 or more (0.01 in the paper).
            micro_batch_tokens: padded tokens per forward and backward pass, all completions of a prompt in one; no influence on the
                gradient. null: all at once.
            optimizer: of trunk and head.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.

        Raises:
            ValueError: batch_size below 1, or a negative centring.
        """
        engine, evaluation = lazy_instance(TransformersEngine), Evaluation(before_training=False)
        super().__init__(policy, {}, engine, micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm, evaluation)
        if batch_size < 1 or not (centring >= 0 and math.isfinite(centring)):
            raise ValueError(f"RewardModeling needs batch_size >= 1 and centring >= 0, got batch_size={batch_size}, centring={centring}")
        self.batch_size, self.columns, self.centring = batch_size, columns, centring
        self.reader: RankingReader = None  # type: ignore[assignment]

    @classmethod
    def network(cls, policy: Policy) -> RewardNetwork:
        """The policy's trunk with a head."""
        return RewardNetwork(policy)

    def build_models(self) -> None:
        """Put a head on the policy's trunk, and read every row of the data once, so that a bad one is named before the first step."""
        if self.batch_size % self.adapter.world_size:
            ranks = self.adapter.world_size
            raise ValueError(f"model.batch_size is {self.batch_size}, which {ranks} ranks cannot share evenly: give a multiple of {ranks}")
        policy = self.policy_source.build()
        check_precision(str(self.trainer.precision), policy.model.dtype)
        self.policy = self.network(policy)
        self.reader = RankingReader(self.policy, self.columns)
        self.prepare_prompts()

    def measure_prompts(self, data: Any) -> None:
        """Have the data drop or refuse the prompts with a completion that is too long, and say how many have nothing to compare."""
        data.measure(self.reader.longest, self.policy.max_positions)
        self._say_what_is_tied()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Draw a batch of prompts, and make one optimizer step on all comparisons of their completions."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        rankings = self.reader.encode(data.draw(self.batch_size // self.adapter.world_size))
        prompts = float(self.adapter.total(torch.tensor([rankings.informative], dtype=torch.float64))[0])

        def loss_of(micro: Rankings) -> MicroBatchLoss:
            scores, compared = self.policy(*micro.rows()), micro.comparisons()
            # a prompt whose completions all rank alike has no other part in the graph
            loss: Tensor = self._losses(scores, compared).sum() / max(prompts, 1.0) + 0.0 * scores.sum()
            report = Report()
            report_scores(report, scores)
            report_comparisons(report, scores, compared)
            return MicroBatchLoss(loss, {"loss": float(loss.detach())}, report.entries)

        with self.phase("optimize"):
            self.step_on(rankings, rankings.lengths, loss_of, sequences=rankings.sequences)
        self.ledger.add("prompts/zero_variance", 1 - rankings.informative / len(rankings))
        self.numbers = finished(self.reduced_ledger())
        self.log_dict(self.numbers, on_step=True, on_epoch=False, batch_size=1)

    def steps_per_epoch(self, prompts: int | None) -> int:
        """Steps that pass over all prompts once; an endless source has epochs of 1000 steps."""
        return 1000 if prompts is None else math.ceil(prompts / self.batch_size)

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Compare the completions of one batch of validation prompts."""
        self._evaluate(batch.prompts)

    def test_step(self, batch: PromptBatch, batch_idx: int) -> None:
        """Compare the completions of one batch of test prompts."""
        self._evaluate(batch.prompts)

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, Any]]:
        """Score the completions of one batch of prompts; one JSON value per completion."""
        rankings = self.reader.encode(batch.prompts)
        scored = []
        for rows, scores in self._scores(rankings):
            first = 0
            for i in rows:
                count = len(rankings.conversations[i])
                scored.append((i, scores[first : first + count].tolist()))
                first += count
        return [row for i, scores in sorted(scored) for row in self._judged(batch.prompts[i], scores)]

    def _judged(self, prompt: Prompt, scores: list[float]) -> list[dict[str, Any]]:
        ranking = read_ranking(prompt, self.columns)
        asked, texts = ranking.prompt, ranking.completions
        shown = asked.text if asked.text is not None else list(asked.messages or ())
        return [{"id": prompt.id, "prompt": shown, "completion": t, "score": s} for t, s in zip(texts, scores, strict=True)]

    def _evaluate(self, prompts: list[Prompt]) -> None:
        self.on_phase("evaluating")
        rankings, ledger = self.reader.encode(prompts), self._evaluation_ledger
        for rows, scores in self._scores(rankings):
            compared = rankings.select(rows).to(self.device).comparisons()
            report_scores(ledger, scores)
            report_comparisons(ledger, scores, compared)
            report_calibration(ledger, scores, compared)
            # in shares of a prompt, so that it is the loss of training whatever the numbers of completions
            ledger.add("loss/total", self._losses(scores, compared).sum(), reduce="sum")
            ledger.add("loss/prompts", rankings.select(rows).informative, reduce="sum")

    def _scores(self, rankings: Rankings) -> list[tuple[list[int], Tensor]]:
        """Scores of all rows of some prompts at a time; every rank makes as many passes."""
        budget = self.micro_batch_tokens
        cuts = micro_batches(rankings.lengths, None if budget is None else budget // rankings.sequences)
        found = []
        for rows in split_to(cuts, self.adapter.largest(len(cuts))):
            micro = rankings.select(rows) if len(rows) else Rankings.nothing()
            scores = self.policy(*micro.to(self.device).rows())
            found += [(rows.tolist(), scores)] if len(rows) else []
        return found

    def _losses(self, scores: Tensor, compared: Comparisons) -> Tensor:
        """`[P]`, each weighed within its prompt."""
        better, worse = scores[compared.better], scores[compared.worse]
        losses = bradley_terry(better, worse, compared.margin.to(scores)) + self.centring * (better + worse).square()
        return losses * compared.weight.to(scores)

    def _log_evaluation(self, stage: str) -> None:
        numbers = finished(self._evaluation_ledger.reduce(self.adapter.gather))
        if "loss/prompts" in numbers:
            numbers["loss"] = numbers.pop("loss/total") / max(numbers.pop("loss/prompts"), 1.0)
        self.log_dict({f"{stage}/{name}": value for name, value in numbers.items()}, batch_size=1)

    def _say_what_is_tied(self) -> None:
        if self.reader.seen and self.reader.tied == self.reader.seen:
            raise ValueError(
                f"none of {self.reader.seen} prompts has a completion that ranks above another: there is nothing to learn. Look at the "
                f"columns {self.columns.ranks!r} and {self.columns.scores!r}"
            )
        if self.reader.tied:
            rank_zero_warn(f"of {self.reader.seen} prompts, {self.reader.tied} rank all their completions alike and teach nothing")
