"""The checks that every algorithm passes when it is built: what it refuses, and what it warns of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lightrl.algorithms.declaration import slots_of
from lightrl.algorithms.extras import asked_of, comparisons_of, givers_of, logprobs_of
from lightrl.parts.base import NEEDS, Part, needs_whole_groups, unread_outputs
from lightrl.parts.ratio import TokenRatio
from lightrl.parts.reference import Reference

if TYPE_CHECKING:
    from lightrl.algorithms.algorithm import Algorithm


def refuse_unsuitable(algorithm: Algorithm) -> None:
    """Refuse parts and values that do not fit their slots or each other; the message names both sides."""
    _refuse_needs(algorithm)
    # refuses two parts that leave one extra; who leaves what is missing is known with the environment
    givers_of(algorithm)
    _refuse_no_reference(algorithm)
    _refuse_row_constant(algorithm)
    _refuse_groups_apart(algorithm)
    _refuse_baseline(algorithm)
    _refuse_critic(algorithm)
    _refuse_correction(algorithm)


def _refuse_needs(algorithm: Algorithm) -> None:
    slots = {logprobs_of(slot): slot for slot, kind in slots_of(type(algorithm)).items() if issubclass(kind, Reference)}
    known, name = NEEDS | slots.keys(), type(algorithm).__name__
    if unknown := algorithm.needs - known:
        raise ValueError(f"{name} has a part that needs {sorted(unknown)}; a part may need: {', '.join(sorted(known))}")
    # refuses two outputs of one name
    _ = algorithm.outputs, algorithm.old_outputs
    for part in algorithm.parts.values():
        if complaint := unread_outputs(part):
            raise ValueError(f"{type(part).__name__} {complaint}")


def _refuse_no_reference(algorithm: Algorithm) -> None:
    slots = [slot for slot, kind in slots_of(type(algorithm)).items() if issubclass(kind, Reference)]
    for asking in algorithm.parts.values():
        for slot in slots:
            if slot not in algorithm.parts and slot in asked_of(asking):
                part, name = type(asking).__name__, type(algorithm).__name__
                raise ValueError(f"{part} asks the {slot}, and {name} has none: set {slot}, for example to Teacher with a policy")
        for output in comparisons_of(asking):
            other = getattr(algorithm, output.against, None)
            if not isinstance(other, Reference) or not other.gives_logits:
                raise ValueError(
                    f"{type(asking).__name__} wants {type(output).__name__} of all logits of policy and {output.against}, and "
                    f"{type(other).__name__} does not give them: set {output.against} to Teacher or FrozenReference"
                )


def _refuse_row_constant(algorithm: Algorithm) -> None:
    for part in (algorithm.ratio, algorithm.clip):
        if part.row_constant and not algorithm.aggregation.divides_by_row_length:
            raise ValueError(
                f"{type(part).__name__} gives a row one value, and {type(algorithm.aggregation).__name__} would count it once per "
                "token, so that long rows weigh more; use aggregation SequenceMean or SequenceSumTokenMean"
            )
    if algorithm.clip.token_ratio_only and not isinstance(algorithm.ratio, TokenRatio):
        clip, ratio = type(algorithm.clip).__name__, type(algorithm.ratio).__name__
        raise ValueError(f"{clip} needs the log-prob of each token, so ratio TokenRatio; got {ratio}")


def _refuse_groups_apart(algorithm: Algorithm) -> None:
    if algorithm.minibatch_of == "rows" and algorithm.minibatches > 1:
        for slot, part in algorithm.parts.items():
            if needs_whole_groups(part):
                raise ValueError(
                    f"{type(part).__name__} in {slot} needs all completions of a prompt in one optimizer step, and minibatch_of is 'rows', "
                    f"which spreads them over {algorithm.minibatches} minibatches: set minibatch_of to groups, or minibatches to 1"
                )


def _refuse_baseline(algorithm: Algorithm) -> None:
    advantage = algorithm.advantage
    comparing: list[Part] = [advantage] if advantage.compares or advantage.baseline == "group" else []
    comparing += [algorithm.token_weight] if algorithm.token_weight is not None and algorithm.token_weight.compares else []
    if comparing and algorithm.sampler.group_size < 2:
        raise ValueError(
            f"{type(comparing[-1]).__name__} compares completions of one prompt, so the sampler's group_size must be "
            f"2 or more; got {type(algorithm.sampler).__name__} with {algorithm.sampler.group_size}"
        )
    if algorithm.advantage.imitates and algorithm.token_weight is None:
        raise ValueError(
            f"{type(algorithm.advantage).__name__} would imitate every completion, the bad ones too: set token_weight to what chooses, "
            "as BestOfGroup does"
        )


def _refuse_critic(algorithm: Algorithm) -> None:
    critic, advantage = algorithm.critic, type(algorithm.advantage).__name__
    fitting = [(slot, term) for slot, term in algorithm.loss_terms.items() if term.fits_values]
    if critic is None:
        if reading := [type(part).__name__ for part in algorithm.parts.values() if "values" in part.needs]:
            raise ValueError(f"{reading[0]} needs values, and no critic gives them: set critic, as to ValueHead")
        return
    if not fitting and "values" not in algorithm.advantage.needs:
        raise ValueError(
            f"{type(critic).__name__} would be trained and never used: {advantage} needs no values, and gives it no returns to be fitted "
            "to; set critic to null or advantage to GAE"
        )
    if fitting and (critic.warmup_rollouts or critic.extra_epochs):
        slot, term = fitting[0]
        raise ValueError(
            f"{type(term).__name__} in {slot} fits the critic together with the policy, and {type(critic).__name__} asks for passes of its "
            "own: set critic.warmup_rollouts and critic.extra_epochs to 0"
        )


def _refuse_correction(algorithm: Algorithm) -> None:
    if algorithm.correction is not None and algorithm.old_logprobs == "rollout":
        raise ValueError(
            f"{type(algorithm.correction).__name__} compares the trainer's log-probs with the engine's, but old_logprobs is 'rollout': "
            "they are the same numbers; set old_logprobs to auto or recompute"
        )


def warn_of_doubtful(algorithm: Algorithm) -> None:
    """Warn of parts that work together and seldom learn well."""
    held = algorithm.kl is not None and algorithm.kl.against == "old" and algorithm.kl.loss_coefficient > 0
    held = held or any(term.holds for term in algorithm.loss_terms.values())
    if not algorithm.clip.bounded and algorithm.steps_per_rollout > 1 and not held:
        warnings.warn(
            f"{type(algorithm.clip).__name__} has no bound, and {algorithm.steps_per_rollout} optimizer steps per rollout leave the policy "
            "that sampled: use epochs 1 and minibatches 1, or a clip",
            stacklevel=2,
        )
    if algorithm.kl is not None and algorithm.kl.loss_coefficient > 0:
        if algorithm.kl.reward_coefficient > 0:
            warnings.warn("KL is in the reward and in the loss: it counts twice", stacklevel=2)
        exact = getattr(algorithm.kl, "off_policy", False) or algorithm.kl.against == "old"
        if getattr(algorithm.kl, "estimator", None) == "k1" and not exact:
            warnings.warn("k1 in the loss has an expected gradient of 0: use k2, k3 or k3_straight_through", stacklevel=2)
