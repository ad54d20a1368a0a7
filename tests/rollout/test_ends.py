"""How completions end, and that masks and texts say so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightrl import Policy, Prompt, SingleTurn, TransformersEngine
from lightrl.parts.engine import Sampling
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.loop import RolloutLoop

EngineFor = Callable[..., RolloutLoop]


def lead_to(policy: Policy, favourites: dict[int, float]) -> None:
    """Make the policy's next token independent of what came before: these logits, and -30 for every other token."""
    head = torch.nn.Linear(policy.hidden_size, policy.model.lm_head.out_features)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.constant_(head.bias, -30.0)
    for token, logit in favourites.items():
        head.bias.data[token] = logit
    policy.model.lm_head = head


def ids(policy: Policy, text: str) -> list[int]:
    return policy.tokenizer.encode(text)  # type: ignore[no-any-return]


def test_the_fields_of_a_rollout(policy: Policy, engine_for: EngineFor, uneven: list[Prompt]) -> None:
    rollout = engine_for(policy).rollout(uneven, 3)
    assert len(rollout) == 15
    assert [p.id for p in rollout.prompts] == [p.id for p in uneven for _ in range(3)]
    assert all(rollout.prompts[3 * i + j] is p for i, p in enumerate(uneven) for j in range(3))
    assert rollout.group.tolist() == [i for i in range(5) for _ in range(3)]
    assert rollout.policy_version.tolist() == [3] * 15
    assert rollout.input_ids.shape[1] == rollout.lengths.max()
    dtypes = (rollout.input_ids, rollout.group, rollout.policy_version)
    assert all(tensor.dtype == torch.int64 for tensor in dtypes)
    for i, prompt in enumerate(rollout.prompts):
        encoded = policy.encode(prompt)
        start, end = len(encoded), int(rollout.lengths[i])
        positions = torch.arange(rollout.input_ids.shape[1])
        assert rollout.input_ids[i, :start].tolist() == encoded
        assert torch.equal(rollout.attention_mask[i], positions < end)
        assert torch.equal(rollout.response_mask[i], (positions >= start) & (positions < end))
        response = rollout.input_ids[i, start:end].tolist()
        assert 1 <= len(response) <= 24
        assert (rollout.finish_reason[i] == "stop") == (response[-1] == 1)
        assert 1 not in response[:-1]
        assert rollout.completions[i] == policy.decode(response)
        assert "<eos>" not in rollout.completions[i]
    assert {"stop", "length"} == set(rollout.finish_reason)


def test_no_prompts_give_a_rollout_of_no_rows(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    engine = engine_for(policy, temperature=0.5)
    empty = engine.rollout([], 4)
    assert len(empty) == 0
    for name in ("input_ids", "attention_mask", "response_mask", "rollout_logprobs"):
        assert getattr(empty, name).shape == (0, 1)
    full = engine.rollout(even, 2)
    joined = type(full).concat([empty, full])
    for name, value in vars(full).items():
        other = getattr(empty, name)
        assert not isinstance(value, torch.Tensor) or value.dtype == other.dtype
        assert torch.equal(getattr(joined, name), value) if isinstance(value, torch.Tensor) else getattr(joined, name) == value


def test_the_token_limit_counts_eos(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    lead_to(policy, {5: 0.0})
    rollout = engine_for(policy, max_new_tokens=7).rollout(even, 2)
    assert rollout.response_lengths.tolist() == [7] * 8
    assert set(rollout.finish_reason) == {"length"}
    assert rollout.truncated.all()
    lead_to(policy, {1: 0.0})
    rollout = engine_for(policy, max_new_tokens=1).rollout(even, 2)
    assert rollout.response_lengths.tolist() == [1] * 8
    assert set(rollout.finish_reason) == {"stop"}
    assert rollout.completions == [""] * 8


def test_eos_carries_a_log_prob(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    lead_to(policy, {1: 0.0, 5: 0.0})
    rollout = engine_for(policy).rollout(even, 8)
    last = rollout.lengths - 1
    rows = torch.arange(len(rollout))
    assert (rollout.input_ids[rows, last] == 1).all()
    torch.testing.assert_close(rollout.rollout_logprobs[rows, last], torch.full((32,), 0.5).log())
    assert rollout.response_mask[rows, last].all()


def test_every_eos_id_ends(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    policy.eos_token_ids = frozenset({1, 7})
    lead_to(policy, {1: 0.0, 7: 0.0, 9: 0.0})
    rollout = engine_for(policy, max_new_tokens=60).rollout(even, 16)
    last = rollout.input_ids[torch.arange(64), rollout.lengths - 1]
    assert set(last.tolist()) == {1, 7}
    assert set(rollout.finish_reason) == {"stop"}
    # an id that closes a completion is not part of its text, special to the tokenizer or not
    assert set("".join(rollout.completions)) == {policy.decode([9])}


@pytest.mark.parametrize("prompts", ["even", "uneven"])
def test_padding_may_be_eos(policy: Policy, engine_for: EngineFor, request: pytest.FixtureRequest, prompts: str) -> None:
    given = request.getfixturevalue(prompts)
    plain = engine_for(policy).rollout(given, 3)
    policy.tokenizer.pad_token = policy.tokenizer.eos_token
    policy.model.config.pad_token_id = 1
    same = engine_for(policy).rollout(given, 3)
    assert torch.equal(same.attention_mask, plain.attention_mask)
    assert torch.equal(same.response_mask, plain.response_mask)
    assert torch.equal(same.input_ids[same.attention_mask], plain.input_ids[plain.attention_mask])
    assert same.finish_reason == plain.finish_reason


def test_a_sampled_pad_token_is_a_token(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    lead_to(policy, {0: 0.0})
    rollout = engine_for(policy, max_new_tokens=5).rollout(even, 1)
    assert rollout.response_mask.sum(1).tolist() == [5] * 4
    assert rollout.attention_mask.all()


def test_a_prompt_may_contain_eos(policy: Policy, engine_for: EngineFor) -> None:
    from tokenizers.processors import TemplateProcessing

    lead_to(policy, {5: 0.0})
    # some tokenizers add it themselves
    policy.tokenizer.backend_tokenizer.post_processor = TemplateProcessing("<eos> $A <eos> <eos>", special_tokens=[("<eos>", 1)])
    rollout = engine_for(policy, max_new_tokens=3).rollout([Prompt(id="a", text="2")], 2)
    assert rollout.input_ids.tolist() == [[1, 4, 1, 1, 5, 5, 5]] * 2
    assert rollout.response_mask.tolist() == [[False] * 4 + [True] * 3] * 2


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_row_ends_where_the_model_has_no_more_positions(
    policy_of: Callable[..., Policy], engine_for: EngineFor, architecture: str
) -> None:
    policy = policy_of(architecture)
    policy.eos_token_ids = frozenset({23})
    lead_to(policy, {5: 0.0})
    prompts = [Prompt(id=str(length), text="1" * length) for length in (95, 90, 3, 60)]
    rollout = engine_for(policy, max_new_tokens=50).rollout(prompts, 2)
    assert rollout.response_lengths.tolist() == [1, 1, 6, 6, 50, 50, 36, 36]
    assert set(rollout.finish_reason) == {"length"}


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_what_a_finished_row_goes_on_to_say_counts_for_nothing(
    policy_of: Callable[..., Policy], engine_for: EngineFor, architecture: str
) -> None:
    policy = policy_of(architecture)
    lead_to(policy, {1: 0.0, 5: 2.2})
    # the long prompts end at their first token and stay in the batch, out of positions, until enough others are finished
    prompts = [Prompt(id="long", text="1" * 95), *(Prompt(id=str(i), text="1=") for i in range(24))]
    rollout = engine_for(policy, max_new_tokens=50).rollout(prompts, 8)
    last = rollout.input_ids[torch.arange(len(rollout)), rollout.lengths - 1].tolist()
    assert rollout.response_lengths[:8].tolist() == [1] * 8
    assert [reason == "stop" for reason in rollout.finish_reason] == [token == 1 for token in last]
    assert "length" in rollout.finish_reason[:8]


def test_a_prompt_that_fills_the_model_is_an_error_with_its_name(policy: Policy, engine_for: EngineFor) -> None:
    prompts = [Prompt(id="fits", text="1="), Prompt(id="too-long", text="1" * 96)]
    with pytest.raises(ValueError, match=r"'too-long' .* 96 "):
        engine_for(policy).rollout(prompts, 2)


@pytest.mark.parametrize(("stop", "kept"), [(["12"], "12"), (["2", "212"], "12"), (["121"], "121"), (["99", "2121"], "12121")])
def test_a_stop_string_ends_a_completion_and_stays(policy: Policy, engine_for: EngineFor, stop: list[str], kept: str) -> None:
    one, two = ids(policy, "12")
    # after 1 comes 2 and after 2 comes 1: the head reads the last token from its embedding
    with torch.no_grad():
        for layer in policy.model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding = policy.model.model.embed_tokens.weight
        policy.model.lm_head.weight.zero_()
        policy.model.lm_head.weight[one] = embedding[two] * 1000
        policy.model.lm_head.weight[two] = embedding[one] * 1000
    rollout = engine_for(policy, stop=stop).rollout([Prompt(id="a", text="0012"), Prompt(id="b", text="02")], 2)
    assert rollout.completions == [kept] * 4
    assert rollout.finish_reason == ["stop"] * 4
    assert rollout.response_lengths.tolist() == [len(kept)] * 4


def test_stop_strings_of_sampled_text(policy: Policy, engine_for: EngineFor, uneven: list[Prompt]) -> None:
    free = engine_for(policy, max_new_tokens=60).rollout(uneven, 8)
    stopped = engine_for(policy, max_new_tokens=60, stop=["1", ">="]).rollout(uneven, 8)
    cut = 0
    for before, after, reason in zip(free.completions, stopped.completions, stopped.finish_reason, strict=True):
        ends = [before.find(text) + len(text) for text in ("1", ">=") if text in before]
        assert after == (before[: min(ends)] if ends else before)
        assert reason == "stop" or not ends
        cut += bool(ends)
    assert 10 < cut < 40


def test_a_sampling_in_place_of_the_engines_own(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    engine = engine_for(policy)
    rollout = engine.rollout(even, 2, Sampling(max_new_tokens=2, temperature=0.0))
    assert rollout.response_lengths.max() <= 2
    assert rollout.temperature == 1.0
    assert rollout.completions[0] == rollout.completions[1]
    assert engine.engine.sampling.max_new_tokens == 24


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_rows": 0}, "max_rows >= 1 or null, got max_rows=0"),
        ({"max_new_tokens": 0}, "max_new_tokens >= 1"),
        ({"temperature": -1.0}, "temperature >= 0"),
        ({"top_p": 0.0}, "0 < top_p <= 1"),
        ({"min_p": 1.0}, "0 <= min_p < 1"),
        ({"stop": ["a", ""]}, "not empty"),
    ],
)
def test_an_argument_outside_its_range_is_an_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformersEngine(**settings)


def test_a_rollout_needs_weights_and_samples(policy: Policy, even: list[Prompt]) -> None:
    rollouts = RolloutLoop(TransformersEngine(), SingleTurn())
    with pytest.raises(RuntimeError, match="update_weights"):
        rollouts.rollout(even, 1)
    rollouts.update_weights(TrainerWeights(policy), 0)
    with pytest.raises(ValueError, match="n >= 1"):
        rollouts.rollout(even, 0)


def test_a_model_without_a_key_value_cache_is_refused(policy: Policy, engine_for: EngineFor, even: list[Prompt]) -> None:
    policy.model.forward = lambda input_ids: None
    with pytest.raises(ValueError, match="past_key_values"):
        engine_for(policy).rollout(even, 1)
