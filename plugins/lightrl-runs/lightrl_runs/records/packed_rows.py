"""The tensors of a rollout without padding, and with what the rows of a group begin with stored once; nothing is rounded."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightrl.types import ScoredRollout, TrainingBatch

PREDICTED = ("old_logprobs", "ref_logprobs", "values")
"""Numbers per sampled token that the trainer computed, where a part needed them."""
OF_ROWS = ("group", "policy_version", "scorable", "row_weight", "seeds")
"""Tensors with a number per row."""


def pack(batch: TrainingBatch) -> dict[str, Tensor]:
    """The tensors of a rollout by name, each contiguous and on the CPU."""
    batch = batch.to("cpu")
    mask = batch.response_mask
    packed = {"rollout_logprobs": batch.rollout_logprobs[mask], **_tokens(batch)}
    for name in PREDICTED:
        values = getattr(batch, name)
        if values is not None and not (name == "old_logprobs" and torch.equal(values, batch.rollout_logprobs)):
            packed[name] = values[mask]
    packed |= {name: getattr(batch, name) for name in OF_ROWS if getattr(batch, name) is not None}
    packed |= {f"outcome:{name}": outcome.to(torch.int8) for name, outcome in batch.outcomes.items()}
    packed |= {f"extra:{name}": extra for name, extra in batch.extras.items()}
    for name, part in batch.reward_parts.items():
        packed |= _score(name, part)
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in packed.items()}


def unpack(packed: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The inverse of `pack`: fields of a `ScoredRollout`, and those of `PREDICTED` that were computed, `[N, L]`."""
    rows = _positions(packed)
    mask: Tensor = rows["response_mask"]

    def spread(name: str) -> Tensor:
        whole = torch.zeros(mask.shape, dtype=packed[name].dtype)
        whole[mask] = packed[name]
        return whole

    rows["rollout_logprobs"] = spread("rollout_logprobs")
    predicted = {name: spread(name) for name in PREDICTED if name in packed}
    predicted.setdefault("old_logprobs", rows["rollout_logprobs"])
    rows |= {name: packed[name] for name in OF_ROWS if name in packed}
    rows["outcomes"] = {name: packed[key].long() for key, name in _named(packed, "outcome")}
    rows["extras"] = {name: packed[key] for key, name in _named(packed, "extra")}
    rows["reward_parts"] = {name: packed[key] for key, name in _named(packed, "score")}
    for key, name in _named(packed, "steps"):
        part = torch.full((mask.numel(),), math.nan, dtype=packed[key].dtype)
        part[packed[f"steps_at:{name}"].long()] = packed[key]
        rows["reward_parts"][name] = part.view(mask.shape)
    rows["reward_parts"] = {name: rows["reward_parts"][name] for name in rows["outcomes"]}
    return rows, predicted


def _tokens(batch: ScoredRollout) -> dict[str, Tensor]:
    ids, mask, lengths = batch.input_ids, batch.response_mask, batch.lengths
    first = torch.where(mask.any(1), mask.int().argmax(1), lengths)
    numbers: dict[bytes, int] = {}
    openings: list[Tensor] = []
    opening = []
    for row, end in enumerate(first.tolist()):
        key = ids[row, :end].numpy().tobytes()
        if key not in numbers:
            numbers[key] = len(openings)
            openings.append(ids[row, :end])
        opening.append(numbers[key])
    position = torch.arange(ids.shape[1])
    later = (position >= first[:, None]) & (position < lengths[:, None])
    small = torch.int16 if not ids.numel() or int(ids.max()) < 2**15 else torch.int32
    pad = ids[position >= lengths[:, None]]
    sampled = mask[later]
    packed = {
        "openings": torch.cat(openings or [ids.new_empty(0)]).to(small),
        "opening_lengths": torch.tensor([len(one) for one in openings], dtype=torch.int32),
        "opening": torch.tensor(opening, dtype=torch.int32),
        "later": ids[later].to(small),
        "later_lengths": (lengths - first).to(torch.int32),
        "width_and_pad": torch.tensor([ids.shape[1], int(pad[0]) if len(pad) else 0]),
    }
    # where others wrote between the turns
    return packed if bool(sampled.all()) else packed | {"sampled": torch.from_numpy(np.packbits(sampled.numpy()))}


def _positions(packed: Mapping[str, Tensor]) -> dict[str, Any]:
    width, pad = packed["width_and_pad"].tolist()
    openings = torch.split(packed["openings"].long(), packed["opening_lengths"].tolist())
    opening, later = packed["opening"].tolist(), packed["later_lengths"].long()
    first = torch.tensor([len(openings[number]) for number in opening], dtype=torch.long)
    ids = torch.full((len(opening), width), pad, dtype=torch.long)
    for row, number in enumerate(opening):
        ids[row, : len(openings[number])] = openings[number]
    position = torch.arange(width)
    behind = (position >= first[:, None]) & (position < (first + later)[:, None])
    ids[behind] = packed["later"].long()
    sampled = behind.clone()
    if "sampled" in packed:
        bits = np.unpackbits(packed["sampled"].numpy(), count=int(later.sum())).astype(bool)
        sampled[behind] = torch.from_numpy(bits)
    return {"input_ids": ids, "attention_mask": position < (first + later)[:, None], "response_mask": sampled}


def _score(name: str, part: Tensor) -> dict[str, Tensor]:
    if part.dim() == 1:
        return {f"score:{name}": part}
    at = (~part.isnan()).flatten().nonzero()[:, 0]
    return {f"steps_at:{name}": at.to(torch.int32), f"steps:{name}": part.flatten()[at]}


def _named(packed: Mapping[str, Tensor], kind: str) -> list[tuple[str, str]]:
    return [(key, key.removeprefix(f"{kind}:")) for key in packed if key.startswith(f"{kind}:")]
