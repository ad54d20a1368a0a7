"""The contract of every algorithm, with a toy task that shows in one rollout whether it learns: digits below five are better."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from lightrl.algorithms.algorithm import Algorithm
from lightrl.data.prompt_data import PromptData
from lightrl.data.tasks import DigitSorting
from lightrl.parts.function import Function
from lightrl.policy.policy import Policy
from lightrl.policy.teacher import Teacher
from lightrl.policy.tiny import TinyPolicy
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.types import TrainingBatch
from lightrl_workshop.checks.check import Make, contract_check, expect
from lightrl_workshop.checks.telling import Telling, lacking, writes_prompts
from lightrl_workshop.toy import CHARACTERS
from lightrl_workshop.trainer import quiet_trainer

KIND = "algorithm"


@contract_check(KIND, "two instances share no part")
def unshared(make: Make[Algorithm]) -> None:
    """Nor does a default belong to the class."""
    one, other = make(), make()
    expect(isinstance(one, Algorithm), f"it must be an Algorithm, got {type(one).__name__}")
    for slot, part in one.parts.items():
        expect(other.parts.get(slot) is not part, f"two instances share their {slot}: pass defaults through Algorithm.__init__", part=part)


@contract_check(KIND, "it takes a step")
def steps(make: Make[Algorithm]) -> None:
    learnt = _learnt(make)
    expect(learnt.steps > 0, "one rollout made no optimizer step")
    expect(all(bool(value.isfinite().all()) for value in learnt.weights.values()), "weights are not finite after one rollout")
    expect(learnt.moved > 0, "one rollout left every weight where it was")


@contract_check(KIND, "it learns in the right direction")
def learns(make: Make[Algorithm]) -> None:
    """After one rollout, completions that scored better than others of their prompt have gained probability on them.

    Where no reward is read, those that the teachers find likelier than the policy did.
    """
    learnt = _learnt(make)
    what = "better completions have not gained on worse ones"
    rewards = learnt.rewards
    expect(learnt.covariance > 0, what, covariance=learnt.covariance, rewards=rewards, gain_per_token=learnt.gain, group=learnt.group)


def _learnt(make: Make[Algorithm]) -> Learnt:
    torch.manual_seed(0)
    algorithm = make()
    # a critic that is trained by itself at first would leave the policy where it is for a while
    if algorithm.critic is not None:
        algorithm.critic.warmup_rollouts = 0
    return one_rollout(algorithm)


@dataclass(frozen=True)
class Learnt:
    """The change that one rollout made to a tiny policy."""

    steps: int
    """Optimizer steps made."""
    weights: dict[str, Tensor]
    """The weights of the policy afterwards."""
    moved: float
    """The largest change of a weight."""
    rewards: Tensor
    """`[N]`: the rewards of the rollout; where none are learnt from, how much likelier the teachers find the row than the policy did."""
    gain: Tensor
    """`[N]`: how much the mean log-prob of the row's tokens rose, in nats."""
    group: Tensor
    """`[N]`: rows with the same number are compared."""
    covariance: float
    """The covariance of reward and gain within groups, summed over rows."""


def one_rollout(algorithm: Algorithm) -> Learnt:
    """Train a tiny policy on one rollout of 64 rows or more, with AdamW at 1e-3, in an environment that gives the extras which it lacks."""
    writes = writes_prompts(algorithm)
    source = TinyPolicy(hidden=16, layers=1, heads=2, **({"alphabet": CHARACTERS, "max_positions": 4096} if writes else {}))  # type: ignore[arg-type]
    # a teacher that shows what is right wants rows that are
    reward = "parity" if writes else "small_digits"
    for reference in algorithm.references.values():
        if isinstance(reference, Teacher) and reference.policy is None:
            reference.policy = TinyPolicy(hidden=16, layers=1, heads=2, seed=1)
    module = PolicyOptimization(
        policy=source,
        algorithm=algorithm,
        rewards={"small": Function(f"lightrl_workshop.toy.{reward}", runs="inline")},
        engine=TransformersEngine(max_new_tokens=6),
        environment=Telling(**lacking(algorithm)),
        prompts_per_rollout=max(64 // algorithm.sampler.group_size, algorithm.minibatches, 1),
        optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.0),
    )
    quiet = logging.getLogger("lightning.pytorch")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = quiet_trainer(max_epochs=1)
            trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=2000)))
    finally:
        quiet.setLevel(level)
    if module.experience is None:
        raise RuntimeError(f"{type(algorithm).__name__} made no rollout")
    grouped = algorithm.sampler.group_size > 1
    rows, before = module.experience, source.build()
    scores = rows.reward_parts["small"] if algorithm.needs_rewards and not writes else _taught(algorithm, module.policy, before, rows)
    return _change(rows, scores, before, module.policy, grouped, trainer.global_step)


@torch.no_grad()
def _taught(algorithm: Algorithm, policy: Policy, before: Policy, rows: TrainingBatch) -> Tensor:
    """`[N]`: how much likelier the teachers find the tokens of a row than the policy did, the mean over its tokens."""
    mask, said = rows.response_mask, list[Tensor]()
    for slot, teacher in algorithm.references.items():
        read_as = rows.as_read(slot)
        said.append(read_as.at_rows(teacher.logprobs(policy, read_as.input_ids, read_as.mask(mask))))
    gaps = [teacher - before(rows.input_ids, mask).logprobs for teacher in said]
    return torch.where(mask, sum(gaps, torch.zeros_like(rows.token_rewards)), 0.0).sum(1) / mask.sum(1).clamp(min=1)


@torch.no_grad()
def _change(rows: TrainingBatch, scores: Tensor, before: Policy, after: Policy, grouped: bool, steps: int) -> Learnt:
    mask = rows.response_mask
    change = after(rows.input_ids, mask).logprobs - before(rows.input_ids, mask).logprobs
    gain = torch.where(mask, change, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    # rows of different prompts are compared where a prompt has only one
    group = rows.group if grouped else torch.zeros_like(rows.group)
    same = (group[:, None] == group[None]).float()
    centred = scores - same @ scores / same.sum(1)
    moved = max(float((a - b).abs().max()) for a, b in zip(after.parameters(), before.parameters(), strict=True))
    return Learnt(steps, dict(after.state_dict()), moved, scores, gain, group, float((centred * gain).sum()))
