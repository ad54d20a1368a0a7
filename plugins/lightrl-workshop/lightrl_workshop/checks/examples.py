"""Examples of micro-batches and experiences, smallest first, and changes to them that must not change a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from lightrl.ops.turns import turn_ends
from lightrl.parts.base import Output, Part, PerToken, TrunkOutput, extras_of
from lightrl.parts.output import OLD
from lightrl.types import Experience, Outcome, TrainingBatch
from lightrl_workshop.experience import PROMPT, experience


@dataclass(frozen=True)
class Micro:
    """The fields of a micro-batch of n rows that parts see: per-token tensors `[n, L]` and a group number per row."""

    logprobs: Tensor
    """Log-probs under the current policy."""
    old_logprobs: Tensor
    """Log-probs under the policy that sampled."""
    other_logprobs: Tensor
    """Log-probs under another policy, such as the reference or the engine."""
    log_ratio: Tensor
    """Log-ratio of current to old policy."""
    advantages: Tensor
    """The same number on all tokens of a row, since row-constant schemes need that."""
    values: Tensor
    """Values of a critic now."""
    old_values: Tensor
    """Values of the critic at rollout time."""
    returns: Tensor
    """The targets of the critic."""
    token_weight: Tensor
    """1 where there is a loss."""
    mask: Tensor
    """Bool: `token_weight > 0`."""
    group: Tensor
    """`[n]`."""
    extras: dict[str, Tensor] = field(default_factory=dict)
    """`[n]`, `[n, L]` or `[n, L, ...]` by name."""

    def select(self, rows: list[int]) -> Micro:
        """These rows, in this order."""
        return Micro(**{name: value[rows] for name, value in self.tensors().items()}, extras={k: v[rows] for k, v in self.extras.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Every field but the extras."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extras"}

    def padded(self, more: int) -> Micro:
        """Further positions on the right that are masked."""
        wide = {name: torch.nn.functional.pad(value, (0, more)) for name, value in self.tensors().items() if name != "group"}
        extras = {k: v if v.dim() < 2 else torch.cat([v, v.new_zeros((len(v), more, *v.shape[2:]))], 1) for k, v in self.extras.items()}
        return replace(self, **wide, extras=extras)

    def poisoned(self) -> Micro:
        """NaN wherever the mask is False, the token weights excepted."""
        kept = ("mask", "group", "token_weight")
        nan: dict[str, Any] = {k: torch.where(self.mask, v, torch.nan) for k, v in self.tensors().items() if k not in kept}
        return replace(self, **nan, extras={name: _unknown(value, self.mask) for name, value in self.extras.items()})

    def __len__(self) -> int:
        return len(self.group)


def _unknown(extra: Tensor, mask: Tensor) -> Tensor:
    """An extra with NaN where the mask is False, if it has numbers per token."""
    if extra.dim() < 2 or not extra.is_floating_point():
        return extra
    return torch.where(mask.view(*mask.shape, *[1] * (extra.dim() - 2)), extra, torch.nan)


MASKS = ([[1]], [[1, 1]], [[1, 1, 1], [1, 0, 0]], [[0, 1, 1, 1, 0], [1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
"""Which tokens carry a loss, of each example: gaps, and a row without any, among the last."""


def micros() -> Iterator[Micro]:
    """Examples, smallest first; log-ratios are on both sides of every clip, and advantages of both signs."""
    for seed, shape in enumerate(MASKS):
        for scale, sign in ((0.05, 1), (0.05, -1), (1.5, 1), (1.5, -1)):
            yield _micro(torch.tensor(shape), scale, sign, seed)


def _micro(shape: Tensor, scale: float, sign: int, seed: int) -> Micro:
    generator = torch.Generator().manual_seed(seed)
    n, length = shape.shape

    def noise() -> Tensor:
        return torch.randn(n, length, generator=generator)

    old = -0.1 - 2 * noise().abs()
    log_ratio = scale * noise()
    signs = sign * torch.tensor([(-1.0) ** i for i in range(n)])
    values = noise()
    return Micro(
        logprobs=old + log_ratio,
        old_logprobs=old,
        other_logprobs=old + 0.3 * noise(),
        log_ratio=log_ratio,
        advantages=(signs * (0.5 + noise().abs()[:, 0]))[:, None].expand(n, length).contiguous(),
        values=values,
        old_values=values + 0.3 * noise(),
        returns=values + noise(),
        token_weight=shape.float(),
        mask=shape.bool(),
        group=torch.arange(n) // 2,
    )


def experiences(part: Part | None = None) -> Iterator[TrainingBatch]:
    """Examples, smallest first: every field filled; ends that were cut off, gaps, an empty row and failed rows among the last."""
    for rows in _experiences():
        rows.extras = {} if part is None else read_extras(part, rows, 0.25 * (1 + rows.group % 3).to(rows.rewards)[:, None])
        yield rows


def read_extras(part: Part, rows: TrainingBatch, numbers: Tensor) -> dict[str, Tensor]:
    """The extras and old outputs that a part reads, each of the shape that it says, from numbers `[N, 1]` or `[N, L]` in [0, 1)."""
    on_tokens = torch.where(rows.response_mask, numbers, 0.0)
    read: dict[str, Tensor] = {name: on_tokens if isinstance(name, PerToken) else numbers[:, 0] for name in extras_of(part)}
    return read | {f"{OLD}{output.name}": likely(output, on_tokens) for output in part.old_outputs}


def likely(output: Output, uniforms: Tensor) -> Tensor:
    """Numbers that an output might give."""
    return output.like(uniforms) if isinstance(output, TrunkOutput) else uniforms


def alike(rewards: Sequence[float], part: Part) -> TrainingBatch:
    """One group of completions of one token that differ in their rewards alone, worth 0 to the critic."""
    rows = _filled(experience(rewards, lengths=[1] * len(rewards)), 0)
    rows = rows.select([0] * len(rewards))
    same = experience(rewards, lengths=[1] * len(rewards))
    rows = replace(rows, rewards=same.rewards, token_rewards=same.token_rewards, reward_parts=same.reward_parts)
    rows.extras = read_extras(part, rows, torch.full((len(rewards), 1), 0.25))
    return replace(rows, values=torch.zeros_like(rows.token_rewards), returns=None)


def _experiences() -> Iterator[TrainingBatch]:
    yield _filled(experience([1.0, 0.0], lengths=[1, 1]), 0)
    yield _filled(experience([1.0, 0.0, 0.5, 2.0], lengths=[2, 1, 3, 2], group=[0, 0, 1, 1]), 1)
    yield _filled(_with_turns(), 3)
    last = experience(
        [1.0, 0.0, 3.0, 2.0, 0.5, 2.5, -1.0, 0.25],
        lengths=[4, 2, 5, 0, 3, 1, 5, 5],
        group=[4, 4, 4, 4, 9, 9, 9, 9],
        scorable=[True, True, False, True, True, True, True, True],
        finish_reason=["stop", "stop", "length", "stop", "stop", "stop", "length", "stop"],
        padding=2,
    )
    last.response_mask[7, PROMPT + 1 : PROMPT + 3] = False
    last.token_rewards[2] = 0.0
    last.outcomes["score"][2] = int(Outcome.ERROR)
    last.token_weight = torch.where(last.response_mask, last.token_weight, 0.0)
    yield _filled(last, 2)


def _with_turns() -> TrainingBatch:
    """Two groups with two and three turns, each turn with a reward."""
    rows = experience([0.0] * 4, lengths=[4, 5, 5, 6], group=[0, 0, 1, 1], gaps=[[1], [2, 3], [1, 3], [1, 4]])
    rows.step_ends = turn_ends(rows.response_mask)
    rows.token_rewards = torch.where(rows.step_ends, torch.arange(8) % 3 + 0.5 * torch.arange(4)[:, None], 0.0)
    return replace(rows, reward_parts={"score": rows.token_rewards.sum(1)})


def _filled(rows: TrainingBatch, seed: int) -> TrainingBatch:
    generator = torch.Generator().manual_seed(seed)

    def noise() -> Tensor:
        return torch.where(rows.response_mask, torch.randn(rows.response_mask.shape, generator=generator), 0.0)

    on_tokens = torch.where(rows.response_mask, rows.token_rewards, 0.0).sum(1)
    # a row without response tokens keeps its score
    rows.rewards = torch.where(rows.response_mask.any(1), on_tokens, rows.rewards)
    rows.old_logprobs = -noise().abs()
    rows.ref_logprobs = rows.old_logprobs + 0.2 * noise()
    rows.values = 0.5 * noise()
    rows.returns = rows.values + noise()
    rows.advantages = torch.where(rows.response_mask & rows.scorable[:, None], noise()[:, PROMPT : PROMPT + 1], 0.0)
    rows.prompts = [replace(prompt, answer="12") for prompt in rows.prompts]
    rows.further_logprobs = {"teacher_logprobs": rows.old_logprobs + 0.2 * noise()}
    rows.rollout_logprobs = rows.old_logprobs + 0.2 * noise()
    return rows


PER_TOKEN = ("token_rewards", "old_logprobs", "rollout_logprobs", "ref_logprobs", "values", "returns", "advantages")
"""The floating-point fields of an experience whose masked entries mean nothing."""


def poisoned(rows: TrainingBatch) -> TrainingBatch:
    """NaN at every position without a sampled token, and in the rewards of rows that failed."""
    nan: dict[str, Any] = {name: torch.where(rows.response_mask, getattr(rows, name), torch.nan) for name in PER_TOKEN}
    failed = ~rows.scorable
    nan["token_rewards"] = torch.where(failed[:, None], torch.nan, nan["token_rewards"])
    parts = {name: torch.where(failed, torch.nan, part) for name, part in rows.reward_parts.items()}
    nan["extras"] = {name: _unknown(value, rows.response_mask) for name, value in rows.extras.items()}
    nan["further_logprobs"] = {word: torch.where(rows.response_mask, value, torch.nan) for word, value in rows.further_logprobs.items()}
    return replace(rows, **nan, rewards=torch.where(failed, torch.nan, rows.rewards), reward_parts=parts)


def shuffled(n: int, seed: int = 0) -> list[int]:
    """An order of n rows that is not the given one, if there is another."""
    order: list[int] = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    return order if order != list(range(n)) else order[::-1]


def brief(rows: Experience | Micro) -> dict[str, Any]:
    """The fields of an example that a message shows."""
    if isinstance(rows, Micro):
        return {"log_ratio": rows.log_ratio, "advantages": rows.advantages, "mask": rows.mask}
    return {"rewards": rows.rewards, "group": rows.group, "scorable": rows.scorable, "response_mask": rows.response_mask}
