import json
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightrl_workshop.experience import experience

import lightrl
from lightrl.rows import Rows
from lightrl.types import PolicyOutput, Prompt, TrainingBatch

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
columns = st.dictionaries(st.text(), json_values, max_size=3)
messages = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()}), max_size=3).map(tuple)


@given(st.text(), st.one_of(messages, st.text()), json_values, columns, columns)
def test_a_prompt_survives_json(name: str, content, answer, extra: dict, meta: dict) -> None:
    field = "text" if isinstance(content, str) else "messages"
    prompt = Prompt(id=name, answer=answer, columns=extra, meta=meta, **{field: content})
    assert Prompt.from_json(json.loads(json.dumps(prompt.to_json()))) == prompt


@pytest.mark.parametrize("content", [{}, {"text": "a", "messages": ({"role": "user", "content": "a"},)}])
def test_a_prompt_is_messages_or_text(content: dict) -> None:
    with pytest.raises(ValueError, match=r"'x'.*messages.*text"):
        Prompt(id="x", **content)


def batch(values: bool = True) -> TrainingBatch:
    rows = experience([1.0, 2.0, 3.0], lengths=[1, 3, 2], group=[0, 0, 1], finish_reason=["stop", "length", "stop"])
    rows.reward_parts["steps"] = torch.where(rows.step_ends, 0.5, torch.nan)
    rows.values = torch.arange(15.0).view(3, 5) if values else None
    return rows


def same(one: Rows, other: Rows) -> bool:
    def equal(a, b) -> bool:
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a.nan_to_num(-99), b.nan_to_num(-99)) if a.is_floating_point() else torch.equal(a, b)
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
        return a == b

    return type(one) is type(other) and all(equal(value, vars(other)[name]) for name, value in vars(one).items())


def test_selecting_takes_rows_in_the_order_asked_for() -> None:
    rows = batch()
    out = rows.select([2, 0, 2])
    assert len(out) == 3
    assert out.group.tolist() == [1, 0, 1]
    assert out.completions == ["xx", "x", "xx"]
    assert out.finish_reason == ["stop", "stop", "stop"]
    assert out.reward_parts["score"].tolist() == [3, 1, 3]
    assert torch.equal(out.values, rows.values[[2, 0, 2]])
    assert out.temperature == rows.temperature
    assert same(rows.select(torch.tensor([0, 1, 2])), rows)


def test_selecting_nothing() -> None:
    empty = batch().select([])
    assert len(empty) == 0
    assert empty.input_ids.shape == (0, 5)
    assert same(TrainingBatch.concat([empty, batch()]), batch())
    assert same(TrainingBatch.concat([batch(), empty]), batch())


@pytest.mark.parametrize("mask", [torch.tensor([True, False, True]), [True, False, True]])
def test_a_mask_is_not_a_list_of_indices(mask) -> None:
    with pytest.raises(TypeError, match=r"mask.nonzero\(\)"):
        batch().select(mask)


def test_padding_fills_each_field_with_what_means_nothing_there() -> None:
    wide = batch().padded(8)
    assert wide.input_ids.shape == wide.values.shape == wide.reward_parts["steps"].shape == (3, 8)
    assert not wide.attention_mask[:, 5:].any()
    assert not wide.response_mask[:, 5:].any()
    assert not wide.step_ends[:, 5:].any()
    assert (wide.token_weight[:, 5:] == 0).all()
    assert wide.reward_parts["steps"][:, 5:].isnan().all()
    assert same(wide.padded(5), batch())


def test_joining_and_taking_apart_again() -> None:
    rows = batch()
    parts = [rows.select([0]).padded(3), rows.select([1, 2])]
    joined = TrainingBatch.concat(parts)
    first = joined.select([0]).padded(3)
    assert same(first, parts[0])
    assert same(joined.select([1, 2]), parts[1])
    assert TrainingBatch.concat([rows]) is rows


def test_joining_what_does_not_belong_together() -> None:
    with pytest.raises(ValueError, match="batch"):
        TrainingBatch.concat([])
    hot = batch()
    hot.temperature = 0.5
    with pytest.raises(ValueError, match=r"temperature.*0\.5.*1\.0"):
        TrainingBatch.concat([batch(), hot])
    for pair in ([batch(), batch(values=False)], [batch(values=False), batch()]):
        with pytest.raises(ValueError, match="values"):
            TrainingBatch.concat(pair)


def test_rows_with_what_an_engine_recorded_join_a_rollout_of_no_rows() -> None:
    """A rank that needs no more prompts, or a slice of none, has a rollout without rows, for which no engine has recorded anything."""
    rows, nothing = batch(), batch().select([])
    rows.extras = {"rollout_routes": torch.ones(3, 5, 2)}
    for order in ([rows, nothing], [nothing, rows], [rows, nothing, rows]):
        joined = TrainingBatch.concat(order)
        assert joined.extra("rollout_routes").shape == (len(joined), 5, 2)


def test_joining_rows_with_other_extras_says_which() -> None:
    rows = batch()
    rows.extras = {"near": torch.ones(3)}
    for pair in ([rows, batch()], [batch(), rows]):
        with pytest.raises(ValueError, match=r"batches to be joined differ in extras: .*near"):
            TrainingBatch.concat(pair)


def test_moving_to_a_device_keeps_everything() -> None:
    rows = batch()
    assert same(rows.to("cpu"), rows)
    assert rows.to("meta").reward_parts["score"].device.type == "meta"


def test_lengths_and_truncation_come_from_masks_and_reasons() -> None:
    rows = batch()
    assert rows.lengths.tolist() == [3, 5, 4]
    assert rows.response_lengths.tolist() == [1, 3, 2]
    assert rows.truncated.tolist() == [False, True, False]


def test_nan_means_no_score_and_is_not_zero() -> None:
    steps = batch().reward_parts["steps"]
    assert math.isnan(steps[0, 0].item())
    assert steps[0, 2].item() == 0.5


def test_every_public_name_resolves() -> None:
    for name in lightrl.__all__:
        assert getattr(lightrl, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lightrl.nonsense


def test_importing_lightrl_costs_nothing() -> None:
    code = "import sys, lightrl; print(sorted({'torch', 'lightning', 'transformers', 'jsonargparse'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_tensor_that_no_part_needs_is_missed_by_name() -> None:
    rows = experience([1.0], values=torch.ones(1, 5))
    assert rows.needed("values") is rows.values
    for holder, name in ((rows, "ref_logprobs"), (PolicyOutput(logprobs=torch.zeros(1, 5)), "entropy")):
        with pytest.raises(RuntimeError, match=name):
            holder.needed(name)
