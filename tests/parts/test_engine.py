import pytest

from lightrl.parts.engine import Sampling


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens >= 1"),
        ({"temperature": -0.1}, "temperature >= 0"),
        ({"top_p": 0.0}, "0 < top_p <= 1"),
        ({"top_p": 1.1}, "0 < top_p <= 1"),
        ({"top_k": -1}, "top_k >= 0"),
        ({"min_p": 1.0}, "0 <= min_p < 1"),
    ],
)
def test_impossible_sampling_is_refused(arguments: dict, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Sampling(**arguments)


def test_greedy_and_plain_sampling_are_possible() -> None:
    assert Sampling(temperature=0).temperature == 0
    assert Sampling().top_p == 1
