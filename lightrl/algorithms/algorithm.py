"""The base of every algorithm: its slots, each with one part or None, and its plain values; and two families of algorithms."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from lightrl.algorithms.checks import refuse_unsuitable, warn_of_doubtful
from lightrl.algorithms.declaration import Declared, slots_of
from lightrl.algorithms.extras import asked_of
from lightrl.parts.advantage import GAE, Advantage, GroupNormalized
from lightrl.parts.aggregation import Aggregation, SequenceMean, TokenMean
from lightrl.parts.base import Output, Part, differs_by_rank, extras_of
from lightrl.parts.clip import ClipScheme, SymmetricClip
from lightrl.parts.correction import RolloutCorrection
from lightrl.parts.critic import Critic, ValueHead
from lightrl.parts.kl import KL
from lightrl.parts.loss_term import LossTerm
from lightrl.parts.output import by_name
from lightrl.parts.ratio import ImportanceRatio, TokenRatio
from lightrl.parts.reference import FrozenReference, Reference
from lightrl.parts.sampler import GroupSampler, Sampler
from lightrl.parts.shaping import RewardShaping
from lightrl.parts.step_part import StepPart
from lightrl.parts.token_weight import TokenWeight
from lightrl.ranges import Count, Passes, Positive


class Algorithm(Declared):
    """Parts that together say how a policy learns from rollouts: one in each slot, and a few plain values."""

    best_for: ClassVar[str] = "not stated"
    """When to choose it, in a few words, for tables that compare algorithms."""

    sampler: Sampler
    """Chooses the completions that the policy learns from."""
    advantage: Advantage
    """How much better than expected a token was."""
    clip: ClipScheme
    """How far one update may go."""
    aggregation: Aggregation
    """How much a token weighs in the loss."""
    ratio: ImportanceRatio = TokenRatio()
    """New policy against old, per token or per completion."""
    shaping: RewardShaping | None = None
    """Changes the rewards before a KL and the advantages."""
    kl: KL | None = None
    """How the policy is tied to another one; null trains without."""
    token_weight: TokenWeight | None = None
    """How much loss each row and token carries; null: all the same."""
    critic: Critic | None = None
    """Predicts the return, for advantages that need values."""
    entropy: LossTerm | None = None
    """A term that keeps the policy undecided."""
    positive_nll: LossTerm | None = None
    """A term that imitates completions that scored well."""
    balance: LossTerm | None = None
    """A term that keeps the experts of a mixture evenly used."""
    reference: Reference = FrozenReference()
    """The anchor of the KL; built only if a part needs it."""
    teacher: Reference | None = None
    """The policy that is learnt from; built only if a part needs it."""
    correction: RolloutCorrection | None = None
    """Weights the loss where engine and trainer disagree; refuses `old_logprobs: rollout`."""
    watched: Output | None = None
    """A number of the policy that sampled, such as `Entropy`, logged as `watched/NAME`; it costs a forward pass unless the old log-probs
    are recomputed. null: none."""
    epochs: Passes = 1
    """Passes over each rollout; at least 1."""
    minibatches: Count = 1
    """Optimizer steps per pass; at least 1."""
    minibatch_of: Literal["groups", "rows"] = "groups"
    """Each step sees whole `groups`, or `rows` chosen one by one: it then sees more prompts, and each prompt in more steps."""
    stop_kl: Positive | None = None
    """End the passes over a rollout when a minibatch's approx_kl (k3 of KL(old || new), mean over the tokens of rows with an advantage,
    in nats) exceeds 1.5 times this; that minibatch makes no step. null: never."""
    old_logprobs: Literal["auto", "rollout", "recompute"] = "auto"
    """`rollout` takes the engine's own log-probs as the old ones; `recompute` runs the trainer's forward. `auto` recomputes where layers
    compute in two bytes, unless a single step has them anyway, and where a correction compares both; else it does not."""

    @property
    def parts(self) -> dict[str, Part]:
        """The filled slots."""
        return {slot: getattr(self, slot) for slot in slots_of(type(self)) if getattr(self, slot) is not None}

    @property
    def loss_terms(self) -> dict[str, LossTerm]:
        """The further terms of the loss whose coefficient is not 0."""
        return {slot: part for slot, part in self.parts.items() if isinstance(part, LossTerm) and part.coefficient}

    @property
    def needs_rewards(self) -> bool:
        """A part reads rewards."""
        acting = self.loss_terms.keys() | self.references.keys()
        return any(p.needs_rewards for slot, p in self.parts.items() if slot in acting or not isinstance(p, LossTerm | Reference))

    @property
    def needs(self) -> frozenset[str]:
        """The numbers that the parts together want the core to compute."""
        return frozenset().union(*(part.needs - extras_of(part) for part in self.parts.values()))

    @property
    def references(self) -> dict[str, Reference]:
        """The references that a part asks, by their slots; an algorithm can add slots of its own."""
        references = {slot: part for slot, part in self.parts.items() if isinstance(part, Reference)}
        return {slot: part for slot, part in references.items() if any(slot in asked_of(asking) for asking in self.parts.values())}

    @property
    def outputs(self) -> dict[str, Output]:
        """The outputs of the current policy that the parts read, by name."""
        return by_name(output for part in self.parts.values() for output in part.outputs)

    @property
    def old_outputs(self) -> dict[str, Output]:
        """The outputs of the policy before the first step that the parts read, by name."""
        return by_name(output for part in self.parts.values() for output in part.old_outputs)

    @property
    def rollout_outputs(self) -> dict[str, Output]:
        """The outputs of the policy while it sampled that the parts read, by name."""
        return by_name(output for part in self.parts.values() for output in part.rollout_outputs)

    @property
    def steers(self) -> frozenset[str]:
        """Names of the extras that travel through the policy with the tokens."""
        return frozenset().union(*(part.steers for part in self.parts.values() if isinstance(part, StepPart)))

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps on one rollout, if no early stop ends them."""
        return self.epochs * self.minibatches

    def state_dict(self, per_rank: bool = False) -> dict[str, Any]:
        """The state of every part that keeps one which is the same on all ranks, or of those whose state differs per rank."""
        states = {slot: part.state_dict() for slot, part in self.parts.items() if differs_by_rank(part) == per_rank}
        return {slot: state for slot, state in states.items() if state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave; parts that keep no state are left as they are.

        Raises:
            ValueError: the state belongs to a slot that this algorithm leaves empty.
        """
        if unknown := sorted(set(state) - set(self.parts)):
            raise ValueError(f"the checkpoint has state for {unknown}, which {type(self).__name__} leaves empty: was it another algorithm?")
        for slot, part in self.parts.items():
            if slot in state:
                part.load_state_dict(state[slot])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{slot}={part!r}' for slot, part in self.parts.items())})"

    def _check(self) -> None:
        refuse_unsuitable(self)
        warn_of_doubtful(self)


class GroupRelative(Algorithm):
    """The base of critic-free group algorithms: rewards compared within the completions of one prompt."""

    sampler = GroupSampler(group_size=8)
    advantage = GroupNormalized()
    clip = SymmetricClip(epsilon=0.2)
    aggregation = SequenceMean()


class ActorCritic(Algorithm):
    """The base of algorithms with a critic: rewards compared with the return that was expected before each token."""

    sampler = GroupSampler(group_size=1)
    advantage = GAE()
    critic = ValueHead()
    """Predicts the return; null with an advantage that needs no values."""
    clip = SymmetricClip(epsilon=0.2)
    aggregation = TokenMean()
