"""The replay of a rollout without any weights: rewards, advantages, and the gradient of each token's log-prob before the first step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import logprobs_of, unmet
from lightrl.parts.loss_term import LossTerm
from lightrl.parts.step_part import Minibatch
from lightrl.ranks import ALONE
from lightrl.rewards.reward_set import RewardSet
from lightrl.training.online.experience import RolloutRewards, experience_of, with_advantages
from lightrl.training.online.loss import StepLoss, terms_of
from lightrl.training.online.predictions import Predictions
from lightrl.training.online.preparation import prepared
from lightrl.training.online.rollout_report import report_experience
from lightrl.training.online.terms import ExtraTerm, Term, ValueTerm
from lightrl.training.reports.statistics import StatisticsLedger
from lightrl.types import PolicyOutput, ScoredRollout, TrainingBatch
from lightrl_runs.records.record import Record
from lightrl_runs.replay.outcome import Gradients, Outcome, Pulls
from lightrl_runs.replay.replaying import ROW, minibatches_of_ranks, numbered

GIVE = "Give the checkpoint: --ckpt_path FILE"


def first_pass(records: Sequence[Record], algorithm: Algorithm, rewards: RewardSet, seed: int) -> Outcome:
    """The steps of one pass, all at the weights before the first one; a ValueError if a part needs numbers that the record does not have.

    The log-probs of these weights are the old ones, so that every ratio is 1 unless the engine's log-probs differ from the trainer's.
    """
    refuse_lacking(records, algorithm, values=True)
    ledger, rows = StatisticsLedger(), numbered(records)
    rollout = records[0].notes.rollout - 1
    rewards.load_state_dict({"rollouts": rollout, "rewards": {}})
    predicted = predictions_of(records, rows.width)
    now = predicted["old_logprobs"]
    own = algorithm.old_logprobs == "rollout" and records[0].notes.engine.exact_logprobs and algorithm.sampler.samples_all
    needs = algorithm.needs
    predictions = Predictions(
        old_logprobs=rows.rollout_logprobs if own else now,
        values=predicted.get("values") if "values" in needs else None,
        ref_logprobs=predicted.get("ref_logprobs") if "ref_logprobs" in needs else None,
    )
    experience, of_rewards = experience_of(rows, RolloutRewards.of(rewards, rows), algorithm, predictions)
    batch, of_advantages = with_advantages(experience, algorithm, ALONE, 0)
    for report in (of_rewards, of_advantages, report_experience(batch, rewards, algorithm.correction, None)):
        ledger.add_report(report)
    terms, left_out = terms_without_weights(algorithm)
    if older := int((rows.policy_version != records[0].notes.steps).sum()):
        left_out.append(f"{older} rows were sampled by older weights than those that learnt from them: their ratios are taken as if not so")
    steps = FirstPass(algorithm, terms, now, Pulls(len(rows), rows.width), Gradients(), ledger)
    for minibatch in minibatches_of_ranks(batch, range(1), algorithm, (seed, rollout)):
        steps.add(minibatch)
    return Outcome(type(algorithm).__name__, batch, ledger.reduce(ALONE.gather), steps.gradients, steps.pulls.values, tuple(left_out))


@dataclass(frozen=True)
class FirstPass:
    """The losses of minibatches as functions of the log-probs alone."""

    algorithm: Algorithm
    terms: Sequence[Term]
    now: Tensor
    """`[N, L]`: log-probs of the weights before the first step."""
    pulls: Pulls
    gradients: Gradients
    ledger: StatisticsLedger

    def add(self, minibatch: TrainingBatch) -> None:
        """One step that is not made."""
        leaf = self.now.clone().requires_grad_()

        def recorded(rows: TrainingBatch) -> PolicyOutput:
            return PolicyOutput(torch.where(rows.response_mask, leaf[rows.extras[ROW].long(), : rows.width], 0.0))

        with torch.no_grad():
            minibatch = prepared(Minibatch(minibatch, PolicyOutput(minibatch.old_logprobs)), self.algorithm, recorded)
        loss = StepLoss(self.terms, minibatch, ALONE)
        if loss.empty:
            return
        self.ledger.add_report(loss.left_out(minibatch))
        rows = loss.rows_of(minibatch)
        found = loss.share(rows, recorded(rows))
        gradient = torch.autograd.grad(found.loss, leaf)[0] if found.loss.requires_grad else torch.zeros_like(leaf)
        self.pulls.add(torch.arange(len(leaf)), torch.ones_like(leaf, dtype=torch.bool), gradient)
        self.gradients.add(gradient.flatten())
        self.ledger.add_report(found.statistics)
        for name, share in found.shares.items():
            self.ledger.add(name, share)


def refuse_lacking(records: Sequence[Record], algorithm: Algorithm, values: bool) -> None:
    """Refuse, with a ValueError, an algorithm that needs what the record lacks; without weights (`values`) also what a network gives."""
    record, name = records[0], type(algorithm).__name__
    run = record.notes.algorithm
    advantage, has = algorithm.advantage, ", ".join(sorted(record.scored.extras)) or "none"
    for part, missing in unmet(algorithm, record.scored.extras.keys()).items():
        raise ValueError(
            f"{type(part).__name__} of {name} needs {', '.join(missing)} for each row, which a sampler or an environment leaves while a "
            f"rollout is made. The record is of {run}, and has of these: {has}"
        )
    largest = int(torch.unique(record.scored.group, return_counts=True)[1].max()) if len(record.scored) else 0
    if advantage.compares and largest < 2:
        raise ValueError(
            f"{type(advantage).__name__} of {name} compares completions of one prompt, and the record of {run} has one for each prompt"
        )
    if algorithm.critic is not None and "values" not in record.predicted:
        raise ValueError(
            f"{type(advantage).__name__} of {name} needs the values of a critic, and the record of {run} has none, since it has no critic"
        )
    parts = [part for part in algorithm.parts.values() if not isinstance(part, LossTerm)]
    if values and (read := sorted({output.name for part in parts for output in (*part.outputs, *part.old_outputs)})):
        raise ValueError(f"{name} reads {', '.join(read)} of whole distributions, which cannot be computed without weights. {GIVE}")
    others = sorted(word for slot in algorithm.references if (word := logprobs_of(slot)) in algorithm.needs - {"ref_logprobs"})
    if values and others:
        raise ValueError(f"{name} needs {', '.join(others)}, which a record does not have: without weights they cannot be computed. {GIVE}")
    if values and "ref_logprobs" in algorithm.needs and "ref_logprobs" not in record.predicted:
        what = f"{name} needs the log-probs of a reference policy, and the record of {run} has none"
        raise ValueError(f"{what}: without weights they cannot be computed. {GIVE}")


def terms_without_weights(algorithm: Algorithm) -> tuple[list[Term], list[str]]:
    """The terms of the loss that are functions of the log-probs of sampled tokens, and a sentence about each other one."""
    terms, left_out = [], []
    for term in terms_of(algorithm):
        if isinstance(term, ValueTerm):
            left_out.append(f"{term.name} is left out: it needs the critic's weights")
        elif isinstance(term, ExtraTerm) and "values" in term.part.needs:
            left_out.append(f"{term.name} is left out: it reads present values, which need the critic's weights")
        elif isinstance(term, ExtraTerm) and term.part.outputs:
            names = ", ".join(output.name for output in term.part.outputs)
            left_out.append(f"{term.name} is left out: it reads {names} of whole distributions, which needs the weights")
        else:
            terms.append(term)
    return terms, left_out


def predictions_of(records: Sequence[Record], width: int) -> dict[str, Tensor]:
    """The numbers that the run computed for every token, by name: `[N, L]` of all ranks, which computed the same."""
    found = {name: [replace(one.scored, rollout_logprobs=one.predicted[name]) for one in records] for name in records[0].predicted}
    return {name: ScoredRollout.concat(rows).padded(width).rollout_logprobs for name, rows in found.items()}
