"""Every promise is broken once on purpose, and the contract test that fails names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lightrl import (
    KL,
    AdaptiveKL,
    Advantages,
    ChosenLikelihood,
    DigitSorting,
    EntropyBonus,
    FrozenReference,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LabelledObjective,
    NoClip,
    OutcomeShaping,
    PeriodicReference,
    PolicyGradient,
    PositiveNLL,
    Prompt,
    RowReward,
    SequenceMean,
    Surrogate,
    TinyPolicy,
    TokenMean,
    TokenRatio,
    TransformersEngine,
    TruncatedImportance,
    ValueHead,
    broadcast_to_tokens,
)
from lightrl.parts.token_weight import MaskTruncated
from lightrl.testing import BrokenContract, class_cases
from lightrl.testing.contracts import CHECKS

BROKEN: dict[tuple[str, str], type[Any]] = {}


def broken(kind: str, title: str, base: type[Any], **members: Any) -> None:
    """Remember a subclass that breaks this promise."""
    assert (kind, title) not in BROKEN, (kind, title)
    BROKEN[kind, title] = type(f"Wrong{base.__name__}", (base,), {"__doc__": "Broken on purpose.", **members})


# every class


def undescribed(self: Any, low: float = 0.0) -> None:
    """Says nothing of its argument."""


def stateful(value: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda self: {"x": value}


broken("part", "what it needs is known, and given to parts of its kind", NoClip, needs=frozenset({"gold"}))
broken("part", "the class and each of its arguments is documented and typed", NoClip, __init__=undescribed)
broken("part", "its state survives a restart", NoClip, state_dict=stateful({1, 2}))
broken("part", "it can be shown", NoClip, __repr__=lambda self: "?")


# advantages


def computes(of: Callable[[Any], Any]) -> Any:
    return lambda self, rows: Advantages(of(rows))


def counting(self: Any, rows: Any) -> Advantages:
    self.seen = getattr(self, "seen", 0) + 1
    return Advantages(broadcast_to_tokens(self.seen * rows.rewards, rows))


def remembering(self: Any, rows: Any) -> Advantages:
    return Advantages(broadcast_to_tokens((1 + getattr(self, "rollouts", 0)) * rows.rewards, rows))


def remember(self: Any) -> None:
    self.rollouts = getattr(self, "rollouts", 0) + 1


ADVANTAGES = {
    "advantages have the shape of the tokens and are 0 where nothing was sampled or scored": lambda r: r.rewards,
    "masked positions and failed rows have no influence": lambda r: broadcast_to_tokens(r.token_rewards.sum(1), r),
    "failed rows leave the statistics": lambda r: broadcast_to_tokens(r.rewards - r.rewards.mean(), r),
    "rows that are all masked get 0": lambda r: r.response_mask * r.rewards[r.scorable].mean(),
    "permuting rows permutes results, and group numbers are only names": lambda r: broadcast_to_tokens(torch.arange(len(r)), r),
    "padding changes nothing": lambda r: broadcast_to_tokens(torch.full((len(r),), r.input_ids.shape[1]), r),
    "splitting a batch over ranks changes nothing": lambda r: broadcast_to_tokens(r.group, r),
    "better rows never get less, and in some groups more": lambda r: broadcast_to_tokens(-r.rewards, r),
    "equal rewards give exactly 0 where the group is the baseline": lambda r: broadcast_to_tokens(r.rewards, r),
    "it runs without what it does not need": lambda r: r.values + 0 * r.ref_logprobs,
}
for title, of in ADVANTAGES.items():
    broken("advantage", title, GroupCentered, compute=computes(of))
broken("advantage", "computing changes nothing before it is committed", GroupCentered, compute=counting)
broken("advantage", "its history survives a restart", GroupCentered, compute=remembering, commit=remember)


# clip schemes


def surrogates(loss: Callable[..., Any], low: Any = None) -> Any:
    def surrogate(self: Any, log_ratio: Any, advantages: Any, old_logprobs: Any, mask: Any) -> Surrogate:
        nowhere = torch.zeros_like(mask)
        value = loss(log_ratio, advantages, mask)
        return Surrogate(value, nowhere if low is None else low(log_ratio), nowhere)

    return surrogate


CLIPS = {
    "it returns a loss and two masks per token": lambda x, a, m: -(x.exp() * a).sum(1),
    "masked positions have no influence": lambda x, a, m: -x.exp() * a.mean(1, keepdim=True),
    "rows have no influence on each other": lambda x, a, m: -(x - x.detach().mean()).exp() * a,
    "padding changes nothing": lambda x, a, m: -x.exp() * a / x.shape[1],
    "a positive advantage raises a token's probability and a negative one lowers it": lambda x, a, m: x.exp() * a,
    "silent_without_advantage is true": lambda x, a, m: -x.exp() * (a + 0.1),
    "row_constant is true": lambda x, a, m: -(torch.where(m, x * a, 0.0).sum(1, keepdim=True)).expand_as(x),
}
for title, loss in CLIPS.items():
    broken("clip scheme", title, NoClip, surrogate=surrogates(loss))
everything = surrogates(lambda x, a, m: -x.exp() * a, low=lambda x: torch.ones_like(x, dtype=torch.bool))
broken("clip scheme", "what is reported as clipped has no gradient", NoClip, surrogate=everything)


# ratios, corrections, KL and value losses: a number per token from two


PER_TOKEN = {
    "it gives each token a finite number": lambda a, b: (a - b) / 0.0,
    "masked positions have no influence": lambda a, b: a - b.mean(1, keepdim=True),
    "rows have no influence on each other": lambda a, b: a - b.mean(),
    "padding changes nothing": lambda a, b: (a - b) / a.shape[1],
}
for title, of in PER_TOKEN.items():
    broken("importance ratio", title, TokenRatio, log_ratio=lambda self, new, old, mask, of=of: of(new, old))
    broken("rollout correction", title, TruncatedImportance, weights=lambda self, old, rollout, mask, of=of: of(old, rollout))
    broken("KL", title, KLPenalty, penalty=lambda self, new, other, log_ratio, of=of: of(new, other))
    broken("critic", title, ValueHead, loss=lambda self, values, old, returns, of=of: of(values, returns))

broken("importance ratio", "it is 1 where the policy has not moved", TokenRatio, log_ratio=lambda self, new, old, mask: new)
broken("importance ratio", "it carries the gradient of the log-probs", TokenRatio, log_ratio=lambda self, new, old, mask: old - new)
broken("importance ratio", "row_constant is true", TokenRatio, row_constant=True)
halved = {"weights": lambda self, old, rollout, mask: 0.5 * (old - rollout).exp().detach()}
broken("rollout correction", "where engine and trainer agree it changes nothing", TruncatedImportance, **halved)
attached = {"weights": lambda self, old, rollout, mask: (old - rollout).exp()}
broken("rollout correction", "its weights carry no gradient", TruncatedImportance, **attached)
broken("KL", "there is no penalty between equal policies", KLPenalty, penalty=lambda self, new, other, log_ratio: new)
always = property(lambda self: frozenset({"ref_logprobs"}))
broken("KL", "without a coefficient it needs nothing, and with one what it is measured against", KLPenalty, needs=always)


class ForgetfulKL(KLPenalty):
    """Broken on purpose."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss_coefficient = 7.0


broken("KL", "its controller's state survives a restart", ForgetfulKL)
broken("KL controller", "a larger KL never gives a smaller coefficient", AdaptiveKL, factor=lambda self, kl, rows: 1 / (1 + kl))


def drifting(self: Any, kl: float, rows: int) -> float:
    self.calls = getattr(self, "calls", 0) + 1
    return 1.0 + self.calls


broken("KL controller", "its history survives a restart", AdaptiveKL, factor=drifting)


# aggregations

AGGREGATIONS = {
    "tokens with a loss weigh something and others nothing": lambda w, g, c: torch.ones_like(w),
    "a step in which everything is masked weighs 0": lambda w, g, c: w / c.tokens,
    "splitting a step into micro-batches and ranks changes nothing": lambda w, g, c: w / w.sum().clamp(min=1),
    "padding changes nothing": lambda w, g, c: w / w.numel(),
}
for title, of in AGGREGATIONS.items():
    broken("aggregation", title, TokenMean, weights=lambda self, w, g, c, of=of: of(w, g, c))
broken("aggregation", "divides_by_row_length is true", SequenceMean, divides_by_row_length=False)


# token weights, loss terms' weights, critics' weights, shaping: a number per token of an experience

ROWS = {
    "weights are finite and never below 0": lambda r: -torch.ones_like(r.token_rewards),
    "masked positions and failed rows have no influence": lambda r: r.old_logprobs.mean(1, keepdim=True).abs().expand_as(r.token_rewards),
    "permuting rows permutes results": lambda r: torch.ones_like(r.token_rewards) * torch.arange(len(r))[:, None],
    "splitting a batch over ranks changes nothing": lambda r: torch.ones_like(r.token_rewards) / len(r),
    "padding changes nothing": lambda r: torch.ones_like(r.token_rewards) / r.token_rewards.shape[1],
}
for title, of in ROWS.items():
    broken("token weight", title, MaskTruncated, weights=lambda self, rows, of=of: of(rows))
    for kind, base in (("critic", ValueHead), ("loss term", PositiveNLL)):
        broken(kind, f"of its weights, {title}", base, weights=lambda self, rows, of=of: of(rows))


class Shaping(OutcomeShaping):
    """Broken on purpose."""

    def __init__(self) -> None:
        super().__init__(missing_eos_penalty=1.0)


for title, of in ROWS.items():
    if "below 0" not in title:
        broken("reward shaping", title, Shaping, rewards=lambda self, rows, given, of=of: of(rows))
infinite = {"rewards": lambda self, rows, given: given / 0}
broken("reward shaping", "it gives each token a finite number", Shaping, **infinite)
everywhere = {"rewards": lambda self, rows, given: torch.ones_like(given)}
broken("reward shaping", "rewards stay on sampled tokens of rows that were scored", Shaping, **everywhere)
broken(
    "token weight", "which rows count is decided row by row", MaskTruncated, in_statistics=lambda self, rows: torch.arange(len(rows)) > 0
)


# objectives


class First(LabelledObjective):
    """Broken on purpose: what it prepares is of the first row alone."""

    needs_mismatched = True

    def prepare(self, mismatched: Any) -> dict[str, Any]:
        return {"first": mismatched.logprob[0]}

    def reward(self, completions: Any) -> Any:
        return completions.logprob

    def loss(self, completions: Any, good: Any, prepared: Any) -> Any:
        return torch.where(good, -1, 1) * completions.logprob


anchored = {"reward": lambda self, completions: completions.log_ratio}
broken("objective", "it gives each row a finite loss and a reward, from what it needs", ChosenLikelihood, **anchored)
by_place = {"loss": lambda self, chosen, rejected: -chosen.logprob * (1 + torch.arange(len(chosen.logprob)))}
broken("objective", "rows have no influence on each other", ChosenLikelihood, **by_place)
reverse = {"loss": lambda self, chosen, rejected: chosen.logprob}
broken("objective", "where the policy is the reference it raises good completions and never a bad one", ChosenLikelihood, **reverse)
broken("objective", "what it prepares does not depend on the order of rows", First)


# loss terms and critics

undeclared = {"needs": frozenset()}
broken("loss term", "it gives each of its tokens a finite loss, from what it needs", EntropyBonus, **undeclared)
mixing = {"loss": lambda self, rows, output: -output.logprobs * torch.arange(len(rows))[:, None]}
broken("loss term", "rows and masked positions have no influence on each other", PositiveNLL, **mixing)
broken("loss term", "without a coefficient it needs nothing", EntropyBonus, needs=frozenset({"entropy"}))
broken("critic", "it says what its loss weighs", ValueHead, aggregation=property(lambda self: None, lambda self, value: None))
away = {"loss": lambda self, values, old, returns: -(values - returns).square()}
broken("critic", "its loss is least at the returns and pulls towards them", ValueHead, **away)


class Silent(torch.nn.Module):
    """Has nothing to learn."""

    def forward(self, input_ids: Any, hidden: Any) -> Any:
        return hidden[..., 0]


broken("critic", "it predicts a number per token", ValueHead, build=lambda self, policy: Silent())


# references


class Doubled(torch.nn.Module):
    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *given: Any) -> Any:
        output = self.policy(*given)
        return replace(output, logprobs=2 * output.logprobs)


class Follower(FrozenReference):
    """Broken on purpose: it is the policy itself."""

    def build(self, policy: Any) -> None:
        self._anchor = policy


class Forgetful(PeriodicReference):
    """Broken on purpose: where it moved to is lost."""

    def __init__(self) -> None:
        super().__init__(every=1)

    def state_dict(self) -> dict[str, Any]:
        return {}


def double(self: Any, policy: Any) -> None:
    self._anchor = Doubled(policy)


broken("reference", "at first it is the policy", FrozenReference, build=double)
broken("reference", "it stays where it is while the policy moves", Follower)
broken("reference", "its history survives a restart", Forgetful)


# samplers, rewards, engines, sources


class Uneven(GroupSampler):
    """Broken on purpose: a row is lost."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        return scored.select(range(len(scored) - 1))


class Alone(GroupSampler):
    """Broken on purpose: a rank that has what it wants stops calling."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        while scored.reward_parts["score"].min() == 1:
            scored = super().collect(collection)
        return scored


class Hoarder(GroupSampler):
    """Broken on purpose: its backlog is no JSON value."""

    def state_dict(self) -> dict[str, Any]:
        return {"backlog": [Prompt(id="a", text="a")]}


class Fussy(GroupSampler):
    """Broken on purpose: it cannot live without a signal."""

    def collect(self, collection: Any) -> Any:
        scored = super().collect(collection)
        if (scored.reward_parts["score"][:2] == 1).all():
            raise RuntimeError("the first group has no signal")
        return scored


broken("sampler", "a batch of informative groups is whole groups of one prompt, as many as asked for", Uneven)
broken("sampler", "groups without a signal do not break it", Fussy)
broken("sampler", "every rank calls draw, rollout, score and total equally often", Alone)
broken("sampler", "its backlog survives a restart", Hoarder)


class Remembering(RowReward):
    """Broken on purpose: a score depends on how many were scored before."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str) -> float:
        self.seen = getattr(self, "seen", 0) + 1
        return float(self.seen)


class Weightless(Remembering):
    """Broken on purpose."""

    def __init__(self) -> None:
        super().__init__(weight=float("inf"))


broken("reward", "it has a finite weight", Weightless)
broken("reward", "a score is about its own row", Remembering)


class Homebound(RowReward):
    """Broken on purpose: it holds what cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__()
        self.length = lambda text: len(text)

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(self.length(completion))


broken("reward", "a worker process can load it, and scores the same there", Homebound)


class Engine(TransformersEngine):
    """Spoils what the built-in engine generates."""

    def __init__(self) -> None:
        super().__init__(max_new_tokens=4)

    def spoilt(self, rollout: Any) -> Any:
        return rollout

    def generate(self, prompts: Any, n: int, sampling: Any = None) -> Any:
        return self.spoilt(super().generate(prompts, n, sampling))


def spoils(**of: Callable[[Any], Any]) -> dict[str, Any]:
    return {"spoilt": lambda self, rollout: replace(rollout, **{name: change(rollout) for name, change in of.items()})}


broken("rollout engine", "rows of a prompt are neighbours and share a group", Engine, **spoils(group=lambda r: r.group.flip(0)))
all_ones = spoils(response_mask=lambda r: torch.ones_like(r.response_mask))
broken("rollout engine", "masks come from lengths, and the response is what the policy sampled", Engine, **all_ones)
warmer = spoils(rollout_logprobs=lambda r: 0.5 * r.rollout_logprobs)
broken("rollout engine", "its log-probs are the trainer's, if it says so", Engine, **warmer)


class AtLeastOne(Engine):
    """Broken on purpose."""

    def generate(self, prompts: Any, n: int, sampling: Any = None) -> Any:
        return super().generate(prompts or [Prompt(id="x", text="1=")], n, sampling)


broken("rollout engine", "no prompts give no rows", AtLeastOne)
broken("rollout engine", "after a restart it continues in the same way", Engine, load_state_dict=lambda self, state: None)


class Fickle(DigitSorting):
    """Broken on purpose: the same number gives another prompt the second time."""

    def prompt(self, index: int) -> Prompt:
        self.asked = getattr(self, "asked", 0) + 1
        return Prompt(id=str(self.asked), text="1=")


broken("prompt source", "the same number gives the same prompt, always", Fickle)
plain = {"prompt": lambda self, index: Prompt(id=str(index), text="1=", answer=(1, 2))}
broken("prompt source", "its prompts are JSON values", DigitSorting, **plain)
broken("policy", "it builds the same policy every time, of the size it says", TinyPolicy, parameters=lambda self: 7)


# bundles

SHARED = TokenMean()


class Sharing(GroupRelative):
    """Broken on purpose: all instances have one aggregation."""

    def __init__(self) -> None:
        super().__init__(aggregation=SHARED)


class Motionless(GroupRelative):
    """Broken on purpose: nothing is ever clipped less than completely."""

    def __init__(self) -> None:
        super().__init__(clip=Zero())


class Backwards(GroupRelative):
    """Broken on purpose: it unlearns."""

    def __init__(self) -> None:
        super().__init__(clip=Reversed())


class Zero(NoClip):
    def surrogate(self, log_ratio: Any, *given: Any) -> Surrogate:
        return Surrogate(0 * log_ratio, *(torch.zeros_like(log_ratio, dtype=torch.bool),) * 2)


class Reversed(PolicyGradient):
    def surrogate(self, log_ratio: Any, advantages: Any, *given: Any) -> Surrogate:
        return super().surrogate(log_ratio, -advantages, *given)


broken("algorithm", "two instances share no part", Sharing)
broken("algorithm", "it takes a step", Motionless)
broken("algorithm", "it learns in the right direction", Backwards)


@pytest.mark.parametrize(("kind", "title"), BROKEN, ids=lambda value: str(value))
def test_a_broken_contract_is_named(kind: str, title: str, tmp_path: Path) -> None:
    cls = BROKEN[kind, title]
    of = "clip scheme" if kind == "part" else kind
    (case,) = (case for case in class_cases(of, cls) if case.check.title == title and case.check.kind == kind)
    with pytest.raises(BrokenContract, match=re.escape(f"{cls.__name__} ({of}) breaks its contract: '{title}':\n")):
        case.run(tmp_path)


def test_every_promise_is_broken_once() -> None:
    assert set(BROKEN) == {(check.kind, check.title) for check in CHECKS}


def test_the_message_shows_the_smallest_example(tmp_path: Path) -> None:
    title = "better rows never get less, and in some groups more"
    (case,) = (case for case in class_cases("advantage", BROKEN["advantage", title]) if case.check.title == title)
    with pytest.raises(BrokenContract) as found:
        case.run(tmp_path)
    lines = str(found.value).splitlines()
    assert lines[1:3] == ["a row with reward 1 must not get less than a row with reward 0", "  advantages = [2] float32 [-1.0, 0.0]"]
    assert "  rewards = [2] float32 [1.0, 0.0]" in lines


class Certain(MaskTruncated):
    """Broken on purpose: it asks for what only loss terms are given."""

    needs = frozenset({"entropy"})

    def weights(self, experience: Any) -> Any:
        return (experience.entropy < 1).float()


class Valued(ChosenLikelihood):
    """Broken on purpose: there is no critic beside an objective."""

    needs = frozenset({"values"})


def test_what_parts_of_another_kind_are_given_is_refused_first_and_as_the_algorithm_does(tmp_path: Path) -> None:
    first = class_cases("token weight", Certain)[0]
    with pytest.raises(BrokenContract, match="it needs the policy's entropy") as found:
        first.run(tmp_path)
    with pytest.raises(ValueError, match="Certain needs the policy's entropy") as refused:
        GroupRelative(token_weight=Certain())
    assert str(found.value).splitlines()[1].partition(" needs ")[2] == str(refused.value).partition(" needs ")[2]
    class_cases("loss term", EntropyBonus)[0].run(tmp_path)
    class_cases("algorithm", Undecided)[0].run(tmp_path)
    with pytest.raises(BrokenContract, match=r"it needs \['values'\], and an objective is given"):
        class_cases("objective", Valued)[0].run(tmp_path)


class Undecided(GroupRelative):
    """A bundle needs what its parts do."""

    def __init__(self) -> None:
        super().__init__(entropy=EntropyBonus())


def test_required_arguments_are_asked_for(tmp_path: Path) -> None:
    from lightrl import ConstantLength

    with pytest.raises(BrokenContract, match=r"ConstantLength cannot be built without length: contract_tests\(..., arguments="):
        class_cases("aggregation", ConstantLength)[0].run(tmp_path)


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"TokenMean is no KL: it is no subclass of lightrl\.parts\.kl:KL"):
        class_cases("KL", TokenMean)
    assert issubclass(KLPenalty, KL)
