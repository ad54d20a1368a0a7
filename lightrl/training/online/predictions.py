"""Old log-probs, values and reference log-probs of every sampled token, before the first optimizer step on a rollout.

The old log-probs are those of the engine that sampled, or the trainer's own: of one more forward pass, unless the only step's has them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import GIVEN, logprobs_of
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.output import OLD
from lightrl.parts.step_part import StepPart
from lightrl.policy.policy import Policy
from lightrl.training.online.networks import compared_at_hand
from lightrl.training.online.policy_learner import PolicyLearner
from lightrl.types import ScoredRollout, WithNeeds

COARSE = 4
"""Bytes of a number below which the log-probs of engine and trainer differ by more than a clip can bear."""


@dataclass(frozen=True)
class Predictions(WithNeeds):
    """Predictions for every sampled token of a rollout, `[N, L]` each; None where no part needs them."""

    old_logprobs: Tensor
    """Under the policy before the first optimizer step."""
    values: Tensor | None
    """The critic's."""
    ref_logprobs: Tensor | None
    """Under the reference policy."""
    further_logprobs: dict[str, Tensor] = field(default_factory=dict)
    """Under other references, by the words that ask for them."""
    extras: dict[str, Tensor] = field(default_factory=dict)
    """The outputs of the policy before the first step, by `OLD` and their names; and `GIVEN`, where not all rows were sampled."""

    def further(self) -> Mapping[str, Tensor]:
        """See `WithNeeds.further`."""
        return self.further_logprobs


def predict(scored: ScoredRollout, learner: PolicyLearner, engine: RolloutEngine, recompute: bool) -> Predictions:
    """Compute what the algorithm's parts need, and nothing else; `recompute`: the old log-probs are the trainer's."""
    algorithm, policy = learner.algorithm, learner.policy
    _refuse_incomparable(algorithm, engine)
    if algorithm.sampler.samples_all and bool(scored.rollout_logprobs.isnan().any()):
        name = type(algorithm.sampler).__name__
        raise ValueError(f"{name} gives rows that the policy has not sampled, and says that it has: {name} needs samples_all = False")
    scored.contexts |= _contexts(scored, algorithm, policy)
    for slot in scored.contexts:
        learner.ledger.add(f"{slot}/informed", scored.informed(slot).float())
    references = {slot: part for slot, part in algorithm.references.items() if logprobs_of(slot) in algorithm.needs}
    needs, read, nothing = algorithm.needs, algorithm.old_outputs, torch.zeros_like(scored.rollout_logprobs)
    known = engine.comparable_logprobs and algorithm.sampler.samples_all

    def compute(micro: ScoredRollout) -> dict[str, Tensor]:
        found = {}
        if recompute or "values" in needs or read:
            output = learner.outputs(micro, micro.host.response_mask, read)
            found = {"old": output.logprobs, **({} if output.values is None else {"values": output.values})}
            found |= {f"{OLD}{name}": values for name, values in output.outputs.items()}
        for slot, reference in references.items():
            read_as = micro.as_read(slot)
            mask = read_as.mask(micro.host.response_mask)
            found[logprobs_of(slot)] = read_as.at_rows(reference.logprobs(policy, read_as.input_ids, mask, micro.temperature))
        return found

    # a recorded rollout has had its log-probs filled in, and says which rows the policy has not sampled
    given = {} if algorithm.sampler.samples_all else {GIVEN: scored.extras.get(GIVEN, scored.rollout_logprobs.isnan().any(1))}
    found: dict[str, Tensor] = {}
    if recompute or read or references or "values" in needs:
        with compared_at_hand(policy, algorithm, read, references.values()):
            found = learner.per_token(scored, compute)
    if not known:
        unknown = scored.response_mask & (scored.rollout_logprobs.isnan() | (not engine.comparable_logprobs))
        scored.rollout_logprobs = torch.where(unknown, found.get("old", nothing), scored.rollout_logprobs)
    asked = {logprobs_of(slot): found.get(logprobs_of(slot), nothing) for slot in references}
    return Predictions(
        old_logprobs=found.get("old", nothing) if recompute else scored.rollout_logprobs,
        values=found.get("values", nothing) if "values" in needs else None,
        ref_logprobs=asked.pop("ref_logprobs", None),
        further_logprobs=asked,
        extras=given | {f"{OLD}{name}": found.get(f"{OLD}{name}", nothing) for name in read},
    )


def _contexts(scored: ScoredRollout, algorithm: Algorithm, policy: Policy) -> dict[str, list[tuple[int, ...]]]:
    """The prompts of references that read others than the policy, by their slots."""
    asked = {slot: reference.contexts(scored, policy) for slot, reference in algorithm.references.items()}
    found = {slot: [tuple(context) for context in contexts] for slot, contexts in asked.items() if contexts is not None}
    if found and any(episode.readings for episode in scored.episodes):
        raise ValueError(
            f"algorithm.{', '.join(found)} reads prompts of its own, and with model.environment.thoughts: strip each turn has another one: "
            "use keep"
        )
    most, spoken = policy.max_positions or sys.maxsize, scored.host.lengths - scored.host.response_mask.int().argmax(1)
    for slot, contexts in found.items():
        for prompt, context, length in zip(scored.prompts, contexts, spoken.tolist(), strict=True):
            if len(context) + length > most:
                raise ValueError(
                    f"algorithm.{slot} reads {len(context)} tokens in place of prompt {prompt.id!r}, and {length} follow, where the policy "
                    f"takes rows of at most {most}: shorten its template, or lower model.engine.max_new_tokens"
                )
    return found


def _refuse_incomparable(algorithm: Algorithm, engine: RolloutEngine) -> None:
    if algorithm.correction is not None and not engine.comparable_logprobs:
        raise ValueError(
            f"algorithm.correction is {type(algorithm.correction).__name__}, and the log-probs of {type(engine).__name__} mean something "
            "else than the trainer's: their ratio would correct nothing. Set algorithm.correction to null, or have the engine give "
            "log-softmax(logits / temperature) over the whole vocabulary"
        )


def old_from(algorithm: Algorithm, engine: RolloutEngine, ahead: int, dtype: torch.dtype) -> Literal["engine", "pass", "step"]:
    """Where the old log-probs come from: the engine, a pass of the trainer over the rollout, or the pass of the only step on it.

    With `auto` they are the trainer's where a correction compares both, and in two bytes, where rounding moves ratios as far as a clip lets
    them; rollouts that are made ahead keep the engine's, so that the ratio shows how old their weights are. A single step's own log-probs
    are the old ones, with ratios of 1, unless a part asks for them before.
    """
    if not (engine.comparable_logprobs and algorithm.sampler.samples_all) or algorithm.old_logprobs == "recompute":
        return "pass"
    rounded = dtype.itemsize < COARSE and not ahead
    if engine.exact_logprobs and (algorithm.old_logprobs == "rollout" or not (rounded or algorithm.correction)):
        return "engine"
    preparing = any(isinstance(part, StepPart) and part.gives for part in algorithm.parts.values())
    asked = preparing or algorithm.references or algorithm.old_outputs or algorithm.critic or algorithm.kl or algorithm.correction
    once = algorithm.epochs * algorithm.minibatches == 1 and algorithm.old_logprobs == "auto" and not ahead
    return "step" if once and not asked else "pass"


def said(algorithm: Algorithm, engine: RolloutEngine, ahead: int, dtype: torch.dtype) -> str | None:
    """A sentence for the start of a run whose precision has decided; None: it has not."""
    if algorithm.old_logprobs != "auto" or dtype.itemsize >= COARSE or not engine.exact_logprobs:
        return None
    told = {
        "pass": "so the old ones take one more forward pass over each rollout. algorithm.old_logprobs: rollout takes the engine's",
        "engine": "and rollouts made ahead keep them: some ratios are beyond a clip before the first step. Set algorithm.correction",
    }.get(old_from(algorithm, engine, ahead, dtype))
    name = str(dtype).removeprefix("torch.")
    return told and f"In {name} the engine's log-probs differ from the trainer's by rounding, {told}"
