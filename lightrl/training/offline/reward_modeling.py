"""Reward modelling: a network learns from comparisons which completions people prefer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor
from torch.nn.functional import logsigmoid
from torchmetrics import Metric

from lightrl.data.loaders import PromptBatch
from lightrl.data.prompt_data import PromptData
from lightrl.parts.environment import SingleTurn, own_opening
from lightrl.policy.policy import Policy
from lightrl.policy.reward_network import RewardNetwork
from lightrl.policy.source import PolicySource
from lightrl.ranges import BatchSize, NonNegative, Positive, refuse_outside
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.evaluating.metrics import right_order
from lightrl.training.evaluating.named_metrics import ScoreMetrics
from lightrl.training.offline.offline_module import OfflineModule
from lightrl.training.offline.rankings import Comparisons, RankingColumns, Rankings, encode_rankings, read_ranking
from lightrl.training.reports.statistics import Report, Reporting, StatisticsLedger
from lightrl.training.steps.fitting_passes import MicroBatchTokens
from lightrl.training.steps.learner import MicroBatchLoss, StepSettings
from lightrl.types import JSON, Prompt


class RewardModeling(OfflineModule):
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
        batch_size: BatchSize = 64,
        columns: RankingColumns = RankingColumns(),
        centring: NonNegative = 0.0,
        micro_batch_tokens: MicroBatchTokens = "auto",
        optimizer: OptimizerCallable = partial(torch.optim.AdamW, lr=1e-5, weight_decay=0.0),
        lr_scheduler: LRSchedulerCallable | None = None,
        max_grad_norm: Positive | None = 1.0,
        metrics: dict[str, Metric] | None = None,
    ) -> None:
        """
        Args:
            policy: whose trunk and tokenizer the reward model gets; its language-modelling head is left out.
            batch_size: prompts per optimizer step over all ranks; a multiple of their number.
            columns: names of those with completions, ranks and margins.
            centring: coefficient of the squared sum of two compared scores, which keeps scores around 0; 0 or more (0.01 in the paper).
            micro_batch_tokens: tokens per forward and backward pass, all completions of a prompt in one and the prompt counted once; no
                influence on the gradient. auto: chosen for model and device; null: all at once.
            optimizer: of trunk and head.
            lr_scheduler: stepped after every optimizer step; null: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; null: never.
            metrics: of torchmetrics, by name, such as `torchmetrics.classification.BinaryAUROC`, logged as `metrics/NAME`; each gets every
                held-out comparison twice, as the probability that one completion is the better one, and 1 if it is.

        Raises:
            ValueError: batch_size below 1, or a negative centring.
        """
        settings = StepSettings(micro_batch_tokens, optimizer, lr_scheduler, max_grad_norm)
        super().__init__(policy, {}, TransformersEngine(), SingleTurn(), Evaluation(before_training=False), settings)
        self.collector.named_metrics = ScoreMetrics(metrics or {})
        self.batch_size, self.columns, self.centring = batch_size, columns, centring
        refuse_outside(type(self), vars(self))

    @classmethod
    def network(cls, policy: Policy) -> RewardNetwork:
        """The policy's trunk with a head."""
        return RewardNetwork(policy)

    def measure_prompts(self, data: PromptData) -> None:
        """Have the data drop or refuse the prompts with a completion that is too long, and say how many have nothing to compare."""
        alike = list[bool]()

        def longest_sequence(prompt: Prompt) -> list[int]:
            rankings = encode_rankings(self.policy, [prompt], self.columns)
            alike.append(bool(rankings.zero_variance))
            return max(rankings.conversations[0], key=len)

        data.measure(longest_sequence, self.policy.max_positions)
        if alike and all(alike):
            raise ValueError(
                f"none of {len(alike)} prompts has a completion that ranks above another: there is nothing to learn. Look at the "
                f"columns {self.columns.ranks!r} and {self.columns.scores!r}"
            )
        if any(alike):
            rank_zero_warn(f"of {len(alike)} prompts, {sum(alike)} rank all their completions alike and teach nothing")

    def learn(self, prompts: list[Prompt]) -> None:
        """Make one optimizer step on all comparisons of the completions of these prompts."""
        rankings = encode_rankings(self.policy, prompts, self.columns)
        compared = len(rankings) - rankings.zero_variance
        over_ranks = float(self.learner.adapter.total(torch.tensor([compared], dtype=torch.float64))[0])

        def loss_of(micro: Rankings) -> MicroBatchLoss:
            scores, comparisons = self.policy(*micro.host.rows()), micro.comparisons()
            # a prompt whose completions all rank alike has no other part in the graph
            loss = self._losses(scores, comparisons).sum() / max(over_ranks, 1.0) + 0.0 * scores.sum()
            report = Report()
            report_scores(report, scores)
            report_comparisons(report, scores, comparisons)
            return MicroBatchLoss(loss, {"loss": loss.detach()}, report.entries)

        self.descend(rankings, loss_of)
        self.ledger.add("prompts/zero_variance", 1 - compared / len(rankings))

    def evaluate_rows(self, prompts: list[Prompt]) -> list[Prompt]:
        """Report on the comparisons of held-out prompts."""
        rankings, ledger = encode_rankings(self.policy, prompts, self.columns), self.collector.held_out
        for rows, scores in self._scores(rankings):
            chosen = rankings.select(rows)
            compared = chosen.to(self.device).comparisons()
            report_scores(ledger, scores)
            report_comparisons(ledger, scores, compared)
            report_calibration(ledger, scores, compared)
            self.collector.named_metrics.add(both_ways(scores, compared))
            # in shares of a prompt, so that it is the loss of training whatever the numbers of completions
            ledger.add("loss/total", self._losses(scores, compared).sum(), reduce="sum")
            ledger.add("loss/prompts", len(chosen) - chosen.zero_variance, reduce="sum")
        return prompts

    def derived(self, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers with the spread of the scores, the calibration, and the loss of an evaluation."""
        done = finished(numbers)
        if "loss/prompts" in done:
            done["loss"] = done.pop("loss/total") / max(done.pop("loss/prompts"), 1.0)
        return done

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, JSON]]:
        """Score the completions of one batch of prompts; one JSON value per completion."""
        rankings = encode_rankings(self.policy, batch.prompts, self.columns)
        scored: dict[int, list[float]] = {}
        for rows, scores in self._scores(rankings):
            counts = [len(rankings.conversations[i]) for i in rows]
            scored |= {i: part.tolist() for i, part in zip(rows, torch.split(scores, counts), strict=True)}
        return [row for i in sorted(scored) for row in self._scored_rows(batch.prompts[i], scored[i])]

    def _scored_rows(self, prompt: Prompt, scores: list[float]) -> list[dict[str, JSON]]:
        ranking = read_ranking(prompt, self.columns)
        shown, pairs = own_opening(ranking.prompt), zip(ranking.completions, scores, strict=True)
        return [{"id": prompt.id, "prompt": shown, "completion": text, "score": score} for text, score in pairs]

    def _scores(self, rankings: Rankings) -> Iterator[tuple[list[int], Tensor]]:
        """Numbers of some prompts, and the scores of all their completions; every rank makes as many passes."""
        for rows, micro in self.passes(rankings, Rankings.dummy()):
            scores = self.policy(*micro.host.rows())
            if rows:
                yield rows, scores

    def _losses(self, scores: Tensor, compared: Comparisons) -> Tensor:
        """`[P]`, each weighed within its prompt."""
        better, worse = scores[compared.better], scores[compared.worse]
        losses = bradley_terry(better, worse, compared.margin.to(scores)) + self.centring * (better + worse).square()
        return losses * compared.weight.to(scores)


BINS = 10
"""Equal parts of [1/2, 1] in which confidence is compared with accuracy."""

_SQUARE = "score/square"


def report_scores(ledger: Reporting, scores: Tensor) -> None:
    """The mean of `[R]` scores, and of their squares, of which `finished` makes the standard deviation."""
    ledger.add("score/mean", scores)
    ledger.add(_SQUARE, scores.detach().double().square())


def report_comparisons(ledger: Reporting, scores: Tensor, compared: Comparisons) -> None:
    """`accuracy`, the share of comparisons whose better completion has the higher score (a tie is half), and `margin`, its mean lead."""
    difference = _difference(scores, compared)
    ledger.add("accuracy", right_order(difference))
    ledger.add("margin", difference)


def report_calibration(ledger: StatisticsLedger, scores: Tensor, compared: Comparisons) -> None:
    """The share of right comparisons among those of about the same confidence, by bins of the confidence.

    The confidence of a comparison is sigmoid(|r_1 - r_2|), the probability of the completion with the higher score.
    """
    difference = _difference(scores, compared)
    right, sure, part = right_order(difference), confidence(difference), confidence_bin(difference, BINS)
    for number in range(BINS):
        inside = part == number
        ledger.add(f"{_bin(number)}/share", inside.double())
        ledger.add(f"{_bin(number)}/accuracy", right[inside])
        ledger.add(f"{_bin(number)}/confidence", sure[inside])


def both_ways(scores: Tensor, compared: Comparisons) -> list[tuple[float, int]]:
    """For metrics: the probability that either completion of a comparison is the better one, and 1 for the one that is, 0 for the other."""
    likely = torch.sigmoid(_difference(scores, compared)).tolist()
    return [row for p in likely for row in ((p, 1), (1 - p, 0))]


def finished(numbers: dict[str, float]) -> dict[str, float]:
    """Reduced numbers with those that follow from them: `score/std`, and with bins `calibration/error`.

    error = sum over bins of share |accuracy - confidence|, the expected calibration error.

    Source: Naeini et al. 2015 (expected calibration error); Guo et al. 2017, arXiv:1706.04599, eq. 3.
    """
    done = dict(numbers)
    if _SQUARE in done:
        done["score/std"] = math.sqrt(max(0.0, done.pop(_SQUARE) - done["score/mean"] ** 2))
    if filled := [name for name in map(_bin, range(BINS)) if f"{name}/accuracy" in done]:
        gaps = (done[f"{name}/share"] * abs(done[f"{name}/accuracy"] - done[f"{name}/confidence"]) for name in filled)
        done["calibration/error"] = sum(gaps)
    return done


def bradley_terry(better: Tensor, worse: Tensor, margin: Tensor | float = 0.0) -> Tensor:
    """`[P]` negative log-likelihoods of comparisons, -log sigmoid(better - worse - margin), of `[P]` scores.

    Source: Bradley and Terry 1952; with a margin Touvron et al. 2023 (Llama 2), arXiv:2307.09288, eq. 2.
    """
    return -logsigmoid(better - worse - margin)


def confidence(difference: Tensor) -> Tensor:
    """`[P]` in [1/2, 1]: the probability that the model gives to the completion it scores higher."""
    return torch.sigmoid(difference.abs())


def confidence_bin(difference: Tensor, bins: int) -> Tensor:
    """`[P]` int64: which of `bins` equal parts of [1/2, 1] the confidence is in."""
    return ((confidence(difference) - 0.5) * 2 * bins).long().clamp(max=bins - 1)


def _difference(scores: Tensor, compared: Comparisons) -> Tensor:
    found = scores.detach().double()
    return found[compared.better] - found[compared.worse]


def _bin(number: int) -> str:
    return f"calibration/{0.5 + 0.5 * number / BINS:.2f}-{0.5 + 0.5 * (number + 1) / BINS:.2f}"
