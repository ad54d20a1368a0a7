"""The record of a rollout: what one rank learnt from, and the numbers that the run logged of it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from lightrl import __version__
from lightrl.types import JSON, Episode, Prompt, ScoredRollout, TrainingBatch
from lightrl_runs.records.packed_rows import unpack

PER_TOKEN = ("old_logprobs", "ref_logprobs", "values", "token_rewards", "token_weight", "advantages", "returns")
"""What the trainer computes for every token before the first step, in this order."""
FORMAT = 1
"""Of the files; a record with a larger number was written by a later version."""


def fingerprints(batch: TrainingBatch) -> dict[str, str]:
    """The fingerprint of every tensor that was computed from a rollout before the first step, in the order of computing."""
    found = {name: getattr(batch, name) for name in PER_TOKEN}
    return {name: _digest(values[batch.response_mask]) for name, values in found.items() if values is not None}


def _digest(values: Tensor) -> str:
    plain = values.detach().cpu().contiguous().view(torch.uint8)
    return hashlib.blake2b(plain.numpy().tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class EngineFacts:
    """Facts that the engine of a run reported about its log-probs; see `RolloutEngine`."""

    name: str
    exact_logprobs: bool
    comparable_logprobs: bool
    in_process: bool


@dataclass(frozen=True)
class Notes:
    """Everything of a record that is no tensor and no row of its data set: JSON values."""

    rollout: int
    """Its number in the run, from 1."""
    rank: int
    """That made and learnt from these rows."""
    ranks: int
    steps: int
    """Optimizer steps behind the weights that the passes over the rollout began with."""
    algorithm: str
    checkpoint: str
    """The file with these weights, as seen from the record's folder; it need not be there."""
    engine: EngineFacts
    device: str
    """That held the rows: `cpu`, `cuda`, ..."""
    temperature: float
    """The temperature that the logits were divided by."""
    prompts: tuple[dict[str, JSON], ...]
    prompt: tuple[int, ...]
    """Per row the number of its prompt."""
    episodes: tuple[dict[str, JSON], ...]
    """Per row its record without what follows from prompt and completion; none of rows that no loop has made."""
    numbers: Mapping[str, float]
    """Logged of the rollout, over all ranks."""
    fingerprints: Mapping[str, str]
    """Of the tensors that were computed before the first step, in the order of computing."""
    written_by: str = __version__
    format: int = FORMAT

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The notes as they stand in a file."""
        return cls(**{f.name: value[f.name] for f in fields(cls)} | {"engine": EngineFacts(**value["engine"])})


@dataclass(frozen=True)
class Record:
    """The rollout of one rank."""

    notes: Notes
    scored: ScoredRollout
    predicted: Mapping[str, Tensor]
    """`old_logprobs`, and `ref_logprobs` and `values` where they were computed: `[N, L]` each."""


def notes_of(batch: TrainingBatch, told: Mapping[str, Any]) -> Notes:
    """The notes on a rollout; `told` are the fields that do not follow from it."""
    prompts: list[Prompt] = []
    number: list[int] = []
    for prompt in batch.prompts:
        # the rows of a group are neighbours
        if not prompts or prompt != prompts[-1]:
            prompts.append(prompt)
        number.append(len(prompts) - 1)
    bare = replace(batch, episodes=[])
    return Notes(
        **told,
        device=batch.input_ids.device.type,
        temperature=batch.temperature,
        prompts=tuple(prompt.to_json() for prompt in prompts),
        prompt=tuple(number),
        episodes=tuple(_short(episode, bare.episode(row)) for row, episode in enumerate(batch.episodes)),
        fingerprints=fingerprints(batch),
    )


def record_of(notes: Notes, tensors: Mapping[str, Tensor], completions: list[str], finish_reason: list[str]) -> Record:
    """The record that was written as notes, packed tensors, and per row a text and why it ended."""
    rows, predicted = unpack(tensors)
    prompts = [Prompt.from_json(one) for one in notes.prompts]
    scored = ScoredRollout(
        **rows,
        prompts=[prompts[number] for number in notes.prompt],
        completions=completions,
        finish_reason=finish_reason,
        temperature=notes.temperature,
    )
    scored.episodes = [Episode.from_json(scored.episode(row).to_json() | told) for row, told in enumerate(notes.episodes)]
    return Record(notes, scored, predicted)


def _short(episode: Episode, plain: Episode) -> dict[str, JSON]:
    """An episode without what follows from prompt and completion, or is nothing."""
    return {name: value for name, value in vars(episode).items() if value != getattr(plain, name)}


def rows_of(records: Sequence[Record]) -> ScoredRollout:
    """The rows of several ranks one after the other, their groups numbered on."""
    return ScoredRollout.concat_groups([record.scored for record in records])
