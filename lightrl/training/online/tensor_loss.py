"""The loss of an algorithm on plain tensors, for a training loop that is not lightrl's."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import logprobs_of, unmet
from lightrl.parts.output import OLD
from lightrl.parts.step_part import Minibatch
from lightrl.ranks import ALONE, Ranks
from lightrl.rows import on_last_token
from lightrl.training.online.experience import RolloutRewards, experience_of, with_advantages
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.predictions import Predictions
from lightrl.training.online.preparation import prepared
from lightrl.types import Denominators, Outcome, PolicyOutput, Prompt, ScoredRollout, TrainingBatch


class TensorLoss:
    """The loss of one optimizer step of an algorithm, as a function of the policy's log-probs.

    loss = sum over terms of coefficient x sum over rows i and tokens t of w[i, t] value[i, t]

    The weights w have the denominators of all N rows and ranks. So rows may be given in one call or in several: losses and gradients of the
    calls add up to those of the step.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        rewards: Tensor,
        group: Tensor,
        mask: Tensor,
        known: Mapping[str, Tensor],
        *,
        truncated: Tensor | None = None,
        current: PolicyOutput | None = None,
        ranks: Ranks = ALONE,
        rank: int = 0,
    ) -> None:
        """
        Args:
            algorithm: such as `GRPO()`; its sampler, critic and references are not asked.
            rewards: `[N]` of rows, or `[N, L]` of tokens; NaN: none. A row without any reward leaves statistics and loss.
            group: `[N]` int64: rows with the same number answer the same prompt.
            mask: `[N, L]` bool: tokens that the policy sampled.
            known: `old_logprobs`, `[N, L]` in nats, and what else parts read: `ref_logprobs`, `teacher_logprobs`, `values`,
                `rollout_logprobs` (the engine's; without them the old ones), and extras such as `old_entropy`.
            truncated: `[N]` bool: rows that were cut at a limit of tokens; None: none.
            current: log-probs and outputs of the present policy, `[N, L]` each, at which some parts look before a step, such as those of
                Clip-Cov; None: the old log-probs, and no outputs.
            ranks: that share the step; the rows here are whole groups of this one.
            rank: number of this one among them.

        Raises:
            ValueError: something that a part reads is not known, or a tensor has another shape.
        """
        _refuse(algorithm, rewards, group, mask, known)
        if current is not None and not isinstance(current, PolicyOutput):
            raise ValueError(f"current is a {type(current).__name__}: give a PolicyOutput(logprobs, outputs)")
        old = known["old_logprobs"]
        scored = _scored(rewards.to(old), group, mask, known, truncated)
        references = {word: known[word] for slot in algorithm.references if (word := logprobs_of(slot)) in algorithm.needs}
        ref = references.pop("ref_logprobs", None)
        predictions = Predictions(old, known.get("values"), ref, references)
        experience, _ = experience_of(scored, _rewards(scored), algorithm, predictions)
        batch, _ = with_advantages(experience, algorithm, ranks, rank)
        before = Minibatch(batch, PolicyOutput(old), ranks=ranks)
        with torch.no_grad():
            self.rows: TrainingBatch = prepared(before, algorithm, lambda _: before.output if current is None else current)
        self._loss = StepLoss(terms_of(algorithm), self.rows, ranks)

    @property
    def denominators(self) -> dict[str, Denominators]:
        """Those of each term, by its name."""
        return {term.name: count for term, count in zip(self._loss.terms, self._loss.denominators, strict=True)}

    def __call__(self, logprobs: Tensor, rows: Tensor | slice = slice(None), **outputs: Tensor) -> Tensor:
        """The share of n rows in the loss, a scalar with gradient.

        Args:
            logprobs: `[n, l]` of the tokens, in nats, at the temperature of the rollout; l at most L, and no sampled token is beyond it.
            rows: indices of the n rows among the N; all of them unless said.
            outputs: what parts read of the policy beside log-probs, `[n, l]` each, such as `entropy`; and `values`, of the critic.
        """
        if self._loss.empty:
            return logprobs.sum() * 0
        micro = self.rows.select(torch.arange(len(self.rows))[rows]).padded(logprobs.shape[1])
        values = outputs.pop("values", None)
        return self._loss.share(micro, PolicyOutput(torch.where(micro.response_mask, logprobs, 0.0), outputs, values)).loss


def _rewards(scored: ScoredRollout) -> RolloutRewards:
    given = scored.reward_parts["reward"]
    tokens = on_last_token(given, scored.response_mask) if given.dim() == 1 else given
    return RolloutRewards(tokens.nan_to_num(0.0), ~tokens.isnan(), given.nan_to_num(0.0) if given.dim() == 1 else given.nansum(1))


def _scored(rewards: Tensor, group: Tensor, mask: Tensor, known: Mapping[str, Tensor], truncated: Tensor | None) -> ScoredRollout:
    rows = len(mask)
    cut = [False] * rows if truncated is None else truncated.tolist()
    own = {"old_logprobs", "rollout_logprobs", "values"}
    return ScoredRollout(
        prompts=[Prompt(id=str(number), text="") for number in group.tolist()],
        completions=[""] * rows,
        input_ids=torch.zeros_like(mask, dtype=torch.long),
        attention_mask=mask.flip(1).cummax(1).values.flip(1),
        response_mask=mask,
        rollout_logprobs=known.get("rollout_logprobs", known["old_logprobs"]),
        group=group,
        finish_reason=["length" if one else "stop" for one in cut],
        policy_version=torch.zeros_like(group),
        temperature=1.0,
        seeds=torch.arange(rows),
        extras={name: value for name, value in known.items() if name not in own and not name.endswith("_logprobs")},
        reward_parts={"reward": rewards},
        outcomes={"reward": torch.full_like(group, int(Outcome.VALUE))},
        scorable=~(rewards.isnan() if rewards.dim() == 1 else rewards.isnan().all(1)),
    )


def _refuse(algorithm: Algorithm, rewards: Tensor, group: Tensor, mask: Tensor, known: Mapping[str, Tensor]) -> None:
    left = unmet(algorithm, known.keys())
    needed = {
        "old_logprobs",
        *(algorithm.needs - {"all_tokens"}),
        *(f"{OLD}{name}" for name in algorithm.old_outputs),
        *itertools.chain.from_iterable(left.values()),
    }
    if missing := sorted(needed - known.keys()):
        raise ValueError(f"{type(algorithm).__name__} reads {', '.join(missing)}: known has {', '.join(sorted(known)) or 'nothing'}")
    rows, width = mask.shape
    expected = {"group": (group, [[rows]]), "rewards": (rewards, [[rows], [rows, width]])}
    expected |= {name: (value, [[rows, width]]) for name, value in known.items() if name.endswith("_logprobs") or name == "values"}
    for name, (tensor, shapes) in expected.items():
        if list(tensor.shape) not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise ValueError(f"{name} must have shape {wanted}, as mask has {list(mask.shape)}; got {list(tensor.shape)}")
