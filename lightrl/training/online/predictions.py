"""Old log-probs, values and reference log-probs of every sampled token, before the first optimizer step on a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.algorithms.extras import GIVEN, logprobs_of
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.output import OLD
from lightrl.parts.sampler import Sampler
from lightrl.policy.policy import Policy
from lightrl.training.online.forwards import Outputs, PerToken, compared_at_hand
from lightrl.types import PolicyOutput, ScoredRollout, WithNeeds


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


def predict(
    scored: ScoredRollout,
    algorithm: Algorithm,
    policy: Policy,
    engine: RolloutEngine,
    recompute: bool,
    outputs: Callable[[ScoredRollout, Tensor, Outputs], PolicyOutput],
    per_token: PerToken,
) -> Predictions:
    """Compute what the algorithm's parts need, and nothing else.

    Args:
        scored: rows of this rank.
        algorithm: whose parts say what they need.
        policy: that sampled, on which the reference may rest.
        engine: that sampled; it says what its log-probs are worth.
        recompute: the old log-probs are the trainer's.
        outputs: log-probs, values and outputs of the selected tokens of a micro-batch.
        per_token: runs the forward passes.

    Raises:
        ValueError: a correction would compare log-probs that mean different things.
    """
    _refuse_incomparable(algorithm, engine)
    _refuse_unsaid(scored, algorithm.sampler)
    references = {logprobs_of(slot): part for slot, part in algorithm.references.items() if logprobs_of(slot) in algorithm.needs}
    needs, read, nothing = algorithm.needs, algorithm.old_outputs, torch.zeros_like(scored.rollout_logprobs)
    known = engine.comparable_logprobs and algorithm.sampler.samples_all

    def compute(micro: ScoredRollout) -> dict[str, Tensor]:
        found = {}
        if recompute or "values" in needs or read:
            output = outputs(micro, micro.host.response_mask, read)
            found = {"old": output.logprobs, **({} if output.values is None else {"values": output.values})}
            found |= {f"{OLD}{name}": values for name, values in output.outputs.items()}
        for word, reference in references.items():
            found[word] = reference.logprobs(policy, micro.host.input_ids, micro.host.response_mask, micro.temperature)
        return found

    given = {} if algorithm.sampler.samples_all else {GIVEN: _given(scored)}
    found: dict[str, Tensor] = {}
    if recompute or read or references or "values" in needs:
        with compared_at_hand(policy, algorithm, read, references.values()):
            found = per_token(scored, compute)
    if not known:
        unknown = scored.response_mask & (scored.rollout_logprobs.isnan() | (not engine.comparable_logprobs))
        scored.rollout_logprobs = torch.where(unknown, found.get("old", nothing), scored.rollout_logprobs)
    return Predictions(
        old_logprobs=found.get("old", nothing) if recompute else scored.rollout_logprobs,
        values=found.get("values", nothing) if "values" in needs else None,
        ref_logprobs=found.get("ref_logprobs", nothing) if "ref_logprobs" in references else None,
        further_logprobs={word: found.get(word, nothing) for word in references if word != "ref_logprobs"},
        extras=given | {f"{OLD}{name}": found.get(f"{OLD}{name}", nothing) for name in read},
    )


def _given(scored: ScoredRollout) -> Tensor:
    """`[N]` bool: rows that the policy has not sampled."""
    # a recorded rollout has had its log-probs filled in, and says which they are
    return scored.extras.get(GIVEN, scored.rollout_logprobs.isnan().any(1))


def _refuse_unsaid(scored: ScoredRollout, sampler: Sampler) -> None:
    if sampler.samples_all and bool(scored.rollout_logprobs.isnan().any()):
        name = type(sampler).__name__
        raise ValueError(f"{name} gives rows that the policy has not sampled, and says that it has: {name} needs samples_all = False")


def _refuse_incomparable(algorithm: Algorithm, engine: RolloutEngine) -> None:
    if algorithm.correction is not None and not engine.comparable_logprobs:
        raise ValueError(
            f"algorithm.correction is {type(algorithm.correction).__name__}, and the log-probs of {type(engine).__name__} mean something "
            "else than the trainer's: their ratio would correct nothing. Set algorithm.correction to null, or have the engine give "
            "log-softmax(logits / temperature) over the whole vocabulary"
        )
