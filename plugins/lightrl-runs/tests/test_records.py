"""A record holds a rollout to the bit, in files that say what is wrong with them."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_runs.records.packed_rows import pack, unpack
from lightrl_runs.records.record import EngineFacts, notes_of
from lightrl_runs.records.record_files import RecordError, data_rows, read, recorded, write
from lightrl_workshop.experience import experience
from torch import Tensor

from lightrl import Prompt, TrainingBatch
from lightrl.prompt import Reading
from lightrl.types import Episode, Outcome, ScoredRollout

TOLD: dict[str, Any] = {
    "rollout": 7,
    "rank": 0,
    "ranks": 1,
    "steps": 12,
    "algorithm": "GRPO",
    "checkpoint": "checkpoint.pt",
    "engine": EngineFacts("TransformersEngine", True, True, True),
    "numbers": {"policy_loss": 0.1 + 0.2, "ratio/max": math.inf},
}


def rows(lengths: list[int], seed: int = 0, gaps: bool = False, vocabulary: int = 50) -> TrainingBatch:
    """Rows of two groups with random tokens and numbers, scores of rows and of steps, a score that failed, and, with gaps, tool output."""
    generator = torch.Generator().manual_seed(seed)
    n = len(lengths)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    group = [0] * (n // 2) + [3] * (n - n // 2)
    batch = experience([0.0] * n, lengths=lengths, group=group, padding=2)
    ids = torch.randint(1, vocabulary, batch.input_ids.shape, generator=generator)
    ids[:, :2] = torch.tensor(group)[:, None]
    ids[~batch.attention_mask] = 9
    mask = batch.response_mask
    if gaps:
        mask = mask & (torch.rand(mask.shape, generator=generator) < 0.7)
    steps = torch.where(mask & (numbers(*mask.shape) > 0), numbers(*mask.shape), math.nan)
    logprobs = torch.where(mask, numbers(*mask.shape), 0.0)
    scores = numbers(n)
    scores[0] = math.nan
    return replace(
        batch,
        input_ids=ids,
        response_mask=mask,
        rollout_logprobs=logprobs,
        old_logprobs=torch.where(mask, numbers(*mask.shape), 0.0),
        values=torch.where(mask, numbers(*mask.shape), 0.0),
        reward_parts={"row": scores, "steps": steps},
        outcomes={"row": torch.full((n,), int(Outcome.VALUE)), "steps": torch.full((n,), int(Outcome.ABSTAINED))},
        row_weight=numbers(n).abs(),
        extras={"greedy": numbers(n)},
        policy_version=torch.arange(n),
    )


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.nan_to_num(7.5), other.nan_to_num(7.5))


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    seed=st.integers(0, 9),
    gaps=st.booleans(),
    vocabulary=st.sampled_from([50, 200_000]),
)
def test_packing_and_unpacking_changes_nothing(lengths: list[int], seed: int, gaps: bool, vocabulary: int) -> None:
    batch = rows(lengths, seed, gaps, vocabulary)
    found, predicted = unpack(pack(batch))
    for name, value in found.items():
        expected = getattr(batch, name)
        pairs = [(value, expected)] if isinstance(value, Tensor) else [(value[key], expected[key]) for key in expected]
        assert all(same(one, other) for one, other in pairs), name
    for name in ("old_logprobs", "values"):
        assert same(predicted[name], getattr(batch, name)), name
    assert "ref_logprobs" not in predicted


def test_log_probs_that_are_the_engines_own_are_stored_once() -> None:
    batch = rows([3, 4])
    own = replace(batch, old_logprobs=batch.rollout_logprobs)
    assert "old_logprobs" not in pack(own)
    assert same(unpack(pack(own))[1]["old_logprobs"], batch.rollout_logprobs)


def written(folder: Path, batch: TrainingBatch) -> Path:
    write(folder, batch, notes_of(batch, TOLD), data_rows(batch, torch.arange(len(batch)).float()))
    return folder


def conversations() -> TrainingBatch:
    """Two rows of one prompt: a single turn, and an episode in which the environment answered."""
    prompt = Prompt(id="p", messages=({"role": "user", "content": "2+2?\u2028"},), answer=4, columns={"level": 3}, meta={"epoch": 1})
    asked = prompt.messages or ()
    single = Episode((*asked, {"role": "assistant", "content": "4"}), turns=1)
    turns = ({"role": "assistant", "content": "?"}, {"role": "user", "content": "try"}, {"role": "assistant", "content": "4"})
    played = Episode(
        (*asked, *turns),
        turns=2,
        rewards=(None, 1.0),
        others=3,
        state={"won": True},
        counts={"tries": 2.0},
        readings=(Reading(1, 1, (5, 6)),),
    )
    return replace(rows([1, 3]), group=torch.tensor([0, 0]), prompts=[prompt] * 2, completions=["4", "?4"], episodes=[single, played])


def test_prompts_episodes_texts_and_numbers_come_back(tmp_path: Path) -> None:
    batch = conversations()
    (record,) = read(written(tmp_path / "records" / "rollout=7", batch))
    assert record.notes.numbers == TOLD["numbers"]
    assert record.notes.engine == TOLD["engine"]
    for name in (f.name for f in fields(ScoredRollout)):
        value = getattr(record.scored, name)
        if not isinstance(value, (Tensor, dict)):
            assert value == getattr(batch, name), name
    assert list(recorded(tmp_path)) == [7]


def test_the_rows_are_a_data_set(tmp_path: Path) -> None:
    folder = written(tmp_path, conversations())
    first, second = map(json.loads, (folder / "rank=0.jsonl").read_text().strip().split("\n"))
    assert first["prompt"] == [{"role": "user", "content": "2+2?\u2028"}]
    assert (first["id"], first["answer"], first["level"], first["completion"], first["finish_reason"]) == ("p", 4, 3, "4", "stop")
    assert (first["reward"], second["reward"]) == (0.0, 1.0)
    assert first["rewards"]["row"] is None, "a reward that failed is no zero"
    assert "messages" not in first
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user", "assistant"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("name", ["rank=0.json", "rank=0.jsonl", "rank=0.safetensors"])
def test_a_damaged_file_is_told(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path, conversations())
    cut(folder / name)
    with pytest.raises(RecordError, match="is damaged"):
        read(folder)
    (folder / name).unlink()
    with pytest.raises(RecordError, match=f"is not complete: there is no {name}"):
        read(folder)


def test_a_record_of_a_later_version_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path, conversations())
    notes = json.loads((folder / "rank=0.json").read_text())
    (folder / "rank=0.json").write_text(json.dumps(notes | {"format": 2}))
    with pytest.raises(RecordError, match="has format 2, and this version reads 1: update lightrl"):
        read(folder)


def test_a_record_is_at_most_twice_its_tokens_and_log_probs(tmp_path: Path) -> None:
    """Four bytes of an id and four of a log-prob per token, with a character or four of text."""
    batch = rows([400] * 32, vocabulary=150_000)
    prompts = [Prompt(id=str(number), text="How many? " * 2) for number in batch.group.tolist()]
    batch = replace(batch, prompts=prompts, completions=["word" * 400] * 32, old_logprobs=batch.rollout_logprobs, values=None)
    batch = replace(batch, reward_parts={"row": batch.reward_parts["row"]}, outcomes={"row": batch.outcomes["row"]})
    told = TOLD | {"numbers": {f"some/number_{i}": 1 / (i + 1) for i in range(100)}}
    write(tmp_path, batch, notes_of(batch, told), data_rows(batch, batch.rewards))
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    tokens = int(batch.attention_mask.sum())
    assert size <= 2 * (4 * tokens + 4 * int(batch.response_mask.sum()))
