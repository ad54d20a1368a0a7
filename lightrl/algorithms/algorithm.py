"""The base of every bundle: all slots, each with one part or None, and the checks that a bundle must pass."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, ClassVar, Literal

from jsonargparse import lazy_instance

from lightrl.parts.advantage import GAE, Advantage, GroupNormalized
from lightrl.parts.aggregation import Aggregation, SequenceMean, TokenMean
from lightrl.parts.base import NEEDS, Part, fresh
from lightrl.parts.clip import ClipScheme, SymmetricClip
from lightrl.parts.correction import RolloutCorrection
from lightrl.parts.critic import Critic, ValueHead
from lightrl.parts.kl import KL
from lightrl.parts.loss_term import LossTerm
from lightrl.parts.ratio import ImportanceRatio, TokenRatio
from lightrl.parts.reference import FrozenReference, Reference
from lightrl.parts.sampler import GroupSampler, Sampler
from lightrl.parts.shaping import RewardShaping
from lightrl.parts.token_weight import TokenWeight

SLOTS: dict[str, type[Part]] = {
    "sampler": Sampler,
    "advantage": Advantage,
    "ratio": ImportanceRatio,
    "clip": ClipScheme,
    "aggregation": Aggregation,
    "shaping": RewardShaping,
    "kl": KL,
    "token_weight": TokenWeight,
    "critic": Critic,
    "entropy": LossTerm,
    "positive_nll": LossTerm,
    "reference": Reference,
    "correction": RolloutCorrection,
}
"""The slots that every bundle has, and the kind of part each holds."""


class Algorithm:
    """A bundle of parts that together say how a policy learns from rollouts."""

    own_slots: ClassVar[dict[str, type[Part]]] = {}
    """Slots that a bundle adds, such as a further loss term: each is also an argument, which it keeps as an attribute before it calls
    `super().__init__`."""
    best_for: str = "not stated"
    """When to choose it, in a few words, for tables that compare algorithms."""

    def __init__(
        self,
        sampler: Sampler,
        advantage: Advantage,
        clip: ClipScheme,
        aggregation: Aggregation,
        ratio: ImportanceRatio = lazy_instance(TokenRatio),
        shaping: RewardShaping | None = None,
        kl: KL | None = None,
        token_weight: TokenWeight | None = None,
        critic: Critic | None = None,
        entropy: LossTerm | None = None,
        positive_nll: LossTerm | None = None,
        reference: Reference = lazy_instance(FrozenReference),
        correction: RolloutCorrection | None = None,
        epochs: int = 1,
        minibatches: int = 1,
        stop_kl: float | None = None,
        old_logprobs: Literal["rollout", "recompute"] = "rollout",
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            advantage: how much better than expected a token was.
            clip: how far one update may go.
            aggregation: what a token weighs in the loss.
            ratio: new policy against old, at which level.
            shaping: what becomes of the rewards before a KL and the advantages.
            kl: how the policy is tied to another one.
            token_weight: which rows or tokens carry how much loss.
            critic: predicts the return, for advantages that need values.
            entropy: a term that keeps the policy undecided.
            positive_nll: a term that imitates what scored well.
            reference: the anchor of the KL; built only if a part needs it.
            correction: what to do where engine and trainer disagree; wants `old_logprobs: recompute`.
            epochs: passes over each rollout; at least 1.
            minibatches: optimizer steps per pass, each on whole groups; at least 1.
            stop_kl: end the passes over a rollout when a minibatch's approx_kl (k3 of KL(old || new), mean over tokens, in
                nats) exceeds 1.5 times this; that minibatch makes no step. None: never.
            old_logprobs: `rollout` takes the engine's own log-probs as the old ones; `recompute` runs the trainer's forward.

        Raises:
            ValueError: the parts cannot work together; the message names both.
        """
        given = {name: value for name, value in locals().items() if name in SLOTS}
        for slot, part in given.items():
            setattr(self, slot, fresh(part))
        for slot in self.own_slots:
            setattr(self, slot, fresh(getattr(self, slot)))
        self.sampler: Sampler
        self.advantage: Advantage
        self.clip: ClipScheme
        self.aggregation: Aggregation
        self.ratio: ImportanceRatio
        self.shaping: RewardShaping | None
        self.kl: KL | None
        self.token_weight: TokenWeight | None
        self.critic: Critic | None
        self.entropy: LossTerm | None
        self.positive_nll: LossTerm | None
        self.reference: Reference
        self.correction: RolloutCorrection | None
        self.epochs, self.minibatches, self.stop_kl, self.old_logprobs = epochs, minibatches, stop_kl, old_logprobs
        self._check()

    @property
    def parts(self) -> dict[str, Part]:
        """The filled slots."""
        return {slot: getattr(self, slot) for slot in slots_of(type(self)) if getattr(self, slot) is not None}

    @property
    def loss_terms(self) -> dict[str, LossTerm]:
        """The further terms of the loss whose coefficient is not 0."""
        return {slot: part for slot, part in self.parts.items() if isinstance(part, LossTerm) and part.coefficient}

    @property
    def needs(self) -> frozenset[str]:
        """What the parts together want the core to compute."""
        return frozenset().union(*(part.needs for part in self.parts.values()))

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps on one rollout, if no early stop ends them."""
        return self.epochs * self.minibatches

    def state_dict(self, per_rank: bool = False) -> dict[str, Any]:
        """The state of every part that keeps one which is the same on all ranks, or of those whose state differs per rank."""
        states = {slot: part.state_dict() for slot, part in self.parts.items() if part.state_per_rank == per_rank}
        return {slot: state for slot, state in states.items() if state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave; parts that keep no state are left as they are.

        Raises:
            ValueError: the state belongs to a slot that this bundle leaves empty.
        """
        unknown = sorted(set(state) - set(self.parts))
        if unknown:
            raise ValueError(f"the checkpoint has state for {unknown}, which {type(self).__name__} leaves empty: was it another algorithm?")
        for slot, part in self.parts.items():
            if slot in state:
                part.load_state_dict(state[slot])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{slot}={part!r}' for slot, part in self.parts.items())})"

    def _check(self) -> None:
        name = type(self).__name__
        for slot, kind in slots_of(type(self)).items():
            part = getattr(self, slot)
            if part is not None and not isinstance(part, kind):
                raise ValueError(f"{name}.{slot} wants a {kind.__name__}, got {type(part).__name__}")
            if part is None and slot in REQUIRED:
                raise ValueError(f"{name}.{slot} cannot be null: every algorithm has one")
        if self.epochs < 1 or self.minibatches < 1:
            raise ValueError(f"{name} needs epochs >= 1 and minibatches >= 1, got epochs={self.epochs}, minibatches={self.minibatches}")
        if self.stop_kl is not None and self.stop_kl <= 0:
            raise ValueError(f"{name} needs stop_kl > 0 or null, got {self.stop_kl}")
        if self.old_logprobs not in ("rollout", "recompute"):
            raise ValueError(f"{name} needs old_logprobs 'rollout' or 'recompute', got {self.old_logprobs!r}")
        unknown = self.needs - NEEDS
        if unknown:
            raise ValueError(f"{name} has a part that needs {sorted(unknown)}; a part may need: {', '.join(sorted(NEEDS))}")
        blind = [part for part in self.parts.values() if "entropy" in part.needs and not isinstance(part, LossTerm)]
        if blind:
            raise ValueError(
                f"{type(blind[0]).__name__} needs the policy's entropy, which is there while a step is computed and given to loss terms "
                "alone: make it a LossTerm, or use the log-probs of the sampled tokens, experience.old_logprobs"
            )
        for refusal in (self._refuse_row_constant, self._refuse_baseline, self._refuse_correction):
            refusal()
        self._warn()

    def _refuse_row_constant(self) -> None:
        for part in (self.ratio, self.clip):
            if part.row_constant and not self.aggregation.divides_by_row_length:
                raise ValueError(
                    f"{type(part).__name__} gives a row one value, and {type(self.aggregation).__name__} would count it once per "
                    "token, so that long rows weigh more; use aggregation SequenceMean or SequenceSumTokenMean"
                )
        if self.clip.token_ratio_only and not isinstance(self.ratio, TokenRatio):
            clip, ratio = type(self.clip).__name__, type(self.ratio).__name__
            raise ValueError(f"{clip} needs the log-prob of each token, so ratio TokenRatio; got {ratio}")

    def _refuse_baseline(self) -> None:
        comparing: list[Part] = [self.advantage] if self.advantage.baseline == "group" else []
        comparing += [self.token_weight] if self.token_weight is not None and self.token_weight.compares else []
        if comparing and self.sampler.group_size < 2:
            raise ValueError(
                f"{type(comparing[-1]).__name__} compares completions of one prompt, so the sampler's group_size must be "
                f"2 or more; got {type(self.sampler).__name__} with {self.sampler.group_size}"
            )
        missing = sorted(self.advantage.needs_extras - self.sampler.gives_extras)
        if missing:
            raise ValueError(
                f"{type(self.advantage).__name__} needs {', '.join(missing)} for each row, and the sampler {type(self.sampler).__name__} "
                "does not leave that: use the sampler that the advantage was written for"
            )
        if self.advantage.imitates and self.token_weight is None:
            raise ValueError(
                f"{type(self.advantage).__name__} would imitate every completion, the bad ones too: set token_weight to what chooses, "
                "as BestOfGroup does"
            )
        if "values" in self.needs and self.critic is None:
            raise ValueError(f"{type(self.advantage).__name__} needs values, and no critic gives them: set critic, as to ValueHead")
        if self.critic is not None and "values" not in self.needs:
            raise ValueError(
                f"{type(self.critic).__name__} would be trained and never used: {type(self.advantage).__name__} needs no values; "
                "set critic to null or advantage to GAE"
            )

    def _refuse_correction(self) -> None:
        if self.correction is not None and self.old_logprobs == "rollout":
            raise ValueError(
                f"{type(self.correction).__name__} compares the trainer's log-probs with the engine's, but old_logprobs is 'rollout': "
                "they are the same numbers; set old_logprobs to recompute"
            )

    def _warn(self) -> None:
        held = self.kl is not None and self.kl.against == "old" and self.kl.loss_coefficient > 0
        if not self.clip.bounded and self.steps_per_rollout > 1 and not held:
            warnings.warn(
                f"{type(self.clip).__name__} has no bound, and {self.steps_per_rollout} optimizer steps per rollout leave the policy "
                "that sampled: use epochs 1 and minibatches 1, or a clip",
                stacklevel=2,
            )
        if self.kl is not None and self.kl.loss_coefficient > 0:
            if self.kl.reward_coefficient > 0:
                warnings.warn("KL is in the reward and in the loss: it counts twice", stacklevel=2)
            exact = getattr(self.kl, "off_policy", False) or self.kl.against == "old"
            if getattr(self.kl, "estimator", None) == "k1" and not exact:
                warnings.warn("k1 in the loss has an expected gradient of 0: use k2, k3 or k3_straight_through", stacklevel=2)


def slots_of(bundle: type[Algorithm]) -> dict[str, type[Part]]:
    """Every slot of a bundle, those that it adds last, and the kind of part it holds."""
    return {**SLOTS, **bundle.own_slots}


REQUIRED = {slot for slot in SLOTS if inspect.signature(Algorithm.__init__).parameters[slot].default is not None}
"""Slots that no bundle may leave empty."""


class GroupRelative(Algorithm):
    """What every critic-free group algorithm shares: rewards compared within the completions of one prompt."""

    def __init__(
        self,
        sampler: Sampler = lazy_instance(GroupSampler, group_size=8),
        advantage: Advantage = lazy_instance(GroupNormalized),
        clip: ClipScheme = lazy_instance(SymmetricClip, epsilon=0.2),
        aggregation: Aggregation = lazy_instance(SequenceMean),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            advantage: how much better than expected a token was.
            clip: how far one update may go.
            aggregation: what a token weighs in the loss.
            **kwargs: the other slots of `Algorithm`.
        """
        super().__init__(sampler=sampler, advantage=advantage, clip=clip, aggregation=aggregation, **kwargs)


class ActorCritic(Algorithm):
    """What every algorithm with a critic shares: rewards compared with what was expected before each token."""

    def __init__(
        self,
        sampler: Sampler = lazy_instance(GroupSampler, group_size=1),
        advantage: Advantage = lazy_instance(GAE),
        critic: Critic | None = lazy_instance(ValueHead),
        clip: ClipScheme = lazy_instance(SymmetricClip, epsilon=0.2),
        aggregation: Aggregation = lazy_instance(TokenMean),
        **kwargs: Any,
    ) -> None:
        """
        Args:
            sampler: which completions the policy learns from.
            advantage: how much better than expected a token was.
            critic: predicts the return; null with an advantage that needs no values.
            clip: how far one update may go.
            aggregation: what a token weighs in the loss.
            **kwargs: the other slots of `Algorithm`.
        """
        super().__init__(sampler=sampler, advantage=advantage, critic=critic, clip=clip, aggregation=aggregation, **kwargs)
