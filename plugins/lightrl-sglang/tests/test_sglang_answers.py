"""A server that answers anything at all: a result in its ranges comes of it, or an error."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_servers.completion import result_of
from lightrl_servers.server import ServerError
from lightrl_sglang.generation import completion_of, ended_by_itself, generate_body
from lightrl_sglang.sglang_dialect import SGLangDialect

from lightrl import Request, Result, Sampling

REQUEST = Request(0, [3, 4, 5], 2, Sampling(max_new_tokens=2), frozenset({1}), seed=0, episode=0)
GOOD: dict[str, Any] = {
    "text": "7",
    "output_ids": [7, 1],
    "meta_info": {
        "id": "a",
        "finish_reason": {"type": "stop", "matched": 1},
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "cached_tokens": 2,
        "weight_version": "4",
        "weight_versions": [{"version": "4", "start": 0, "end": 2}],
        "output_token_logprobs": [[-0.5, 7, None], [-1, 1, "</s>"]],
    },
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "matched", "version"]), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with something else at a place."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = put(value[path[0]], path[1:], new)
    return copied


def read(answer: dict[str, Any], request: Request = REQUEST) -> Result:
    """The result of the request."""
    return result_of(completion_of(answer, request), request, 4, str, SGLangDialect.words)


@settings(max_examples=300)
@given(st.sampled_from(list(places(GOOD))), ANYTHING)
def test_any_answer_is_a_result_in_its_ranges_or_refused(place: tuple[Any, ...], new: Any) -> None:
    answer = put(GOOD, place, new)
    try:
        result = read(answer if isinstance(answer, dict) else {})
    except ServerError:
        return
    assert all(type(token) is int and 0 <= token < 2**31 for token in result.tokens)
    assert all(type(value) is float and -1000 < value <= 1e-3 for value in result.logprobs)
    assert len(result.tokens) == len(result.logprobs) in (1, 2)
    assert 0 <= result.read <= 3
    assert result.versions == ((4, len(result.tokens)),)


def test_a_good_answer_is_the_completion() -> None:
    assert read(GOOD) == Result(0, [7, 1], [-0.5, -1.0], "stop", ((4, 2),), 1)


@pytest.mark.parametrize("value", [3.0, -8999, "-1", None, -3.4e38])
def test_a_log_prob_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ServerError):
        read(put(GOOD, ("meta_info", "output_token_logprobs", 0, 0), value))


def test_an_end_that_stands_for_weights_that_are_not_finite_is_no_end() -> None:
    with pytest.raises(ServerError, match="ended by 'NaN happened', which is no stop string"):
        read(put(GOOD, ("meta_info", "finish_reason", "matched"), "NaN happened"))


def test_a_stop_string_of_the_request_ends_it() -> None:
    stopped = replace(REQUEST, sampling=Sampling(max_new_tokens=2, stop=("7",)), ends=frozenset())
    answer = put(put(GOOD, ("meta_info", "finish_reason", "matched"), "7"), ("output_ids",), [7])
    result = read(put(answer, ("meta_info", "output_token_logprobs"), [[-0.5, 7, None]]), stopped)
    assert (result.tokens, result.finish_reason) == ([7], "stop")


def test_an_end_of_the_model_is_told_from_one_of_the_request() -> None:
    other = replace(REQUEST, ends=frozenset({9}))
    assert not ended_by_itself(completion_of(GOOD, REQUEST), REQUEST)
    assert ended_by_itself(completion_of(GOOD, other), other)
    several = put(GOOD, ("meta_info", "finish_reason", "matched"), [1])
    assert completion_of(several, other).stopped_by is None


def test_the_fields_of_a_request() -> None:
    """`ignore_eos` would take `stop_token_ids` with it, 0 is no `top_k`, and what was sampled stands behind the context."""
    body = generate_body(REQUEST, None, [])
    asked = body["sampling_params"]
    assert (asked["ignore_eos"], asked["stop_token_ids"], asked["top_k"], asked["max_new_tokens"]) == (False, [1], -1, 2)
    assert "lora_path" not in body
    further = generate_body(replace(REQUEST, ends=frozenset(), seed=-1), "adapters", [7])
    asked = further["sampling_params"]
    assert (asked["ignore_eos"], asked["max_new_tokens"], asked["sampling_seed"]) == (True, 1, 2**63 - 1)
    assert (further["input_ids"], further["lora_path"]) == ([3, 4, 5, 7], "adapters")
