"""The checks that every algorithm passes when it is built: what it refuses, and what it warns of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lightrl.algorithms.declaration import slots_of
from lightrl.algorithms.extras import asked_of, comparisons_of, givers_of, logprobs_of
from lightrl.parts.base import NEEDS, extras_of, unread_outputs
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
    _refuse_small_groups(algorithm)
    _refuse_no_choice(algorithm)
    _refuse_critic(algorithm)
    _refuse_correction(algorithm)


def _refuse_needs(algorithm: Algorithm) -> None:
    slots = {logprobs_of(slot): slot for slot, kind in slots_of(type(algorithm)).items() if issubclass(kind, Reference)}
    for part in algorithm.parts.values():
        if unknown := sorted(part.needs - extras_of(part) - NEEDS - slots.keys()):
            raise ValueError(
                f"{type(part).__name__} needs {', '.join(unknown)}, and {type(algorithm).__name__} has no such reference; those that "
                f"it has give: {', '.join(sorted(slots))}"
            )
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
            # an advantage has seen the whole rollout, and so has a token weight that prepares nothing for a step
            if part.compares and part is not algorithm.advantage and (part is not algorithm.token_weight or part.sees_steps):
                raise ValueError(
                    f"{type(part).__name__} in {slot} needs all completions of a prompt in one optimizer step, and minibatch_of is 'rows', "
                    f"which spreads them over {algorithm.minibatches} minibatches: set minibatch_of to groups, or minibatches to 1"
                )


def _refuse_small_groups(algorithm: Algorithm) -> None:
    for part in (algorithm.advantage, algorithm.token_weight, *algorithm.loss_terms.values()):
        if part is not None and part.compares and algorithm.sampler.group_size < 2:
            raise ValueError(
                f"{type(part).__name__} compares completions of one prompt, so the sampler's group_size must be "
                f"2 or more; got {type(algorithm.sampler).__name__} with {algorithm.sampler.group_size}"
            )


def _refuse_no_choice(algorithm: Algorithm) -> None:
    choosing = algorithm.needs_rewards or algorithm.references or algorithm.loss_terms or algorithm.token_weight is not None
    if not choosing and not algorithm.advantage.needs and algorithm.sampler.samples_all:
        raise ValueError(
            f"{type(algorithm.advantage).__name__} reads no rewards, and no other part does: nothing says which completions are good. "
            "Set token_weight to what chooses, as BestOfGroup does, or advantage to one that reads rewards, such as GroupNormalized"
        )


def _refuse_critic(algorithm: Algorithm) -> None:
    critic, advantage = algorithm.critic, type(algorithm.advantage).__name__
    own = "values" in algorithm.advantage.needs
    fitting = [] if own else [(slot, term) for slot, term in algorithm.loss_terms.items() if "values" in term.needs]
    if critic is None:
        if reading := [type(part).__name__ for part in algorithm.parts.values() if "values" in part.needs]:
            raise ValueError(f"{reading[0]} needs values, and no critic gives them: set critic, as to ValueHead")
        return
    if not fitting and not own:
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
