import pytest

from lightrl import EpisodeSeeds, Prompt


def test_every_number_is_an_episode_of_its_own() -> None:
    source = EpisodeSeeds(size=3)
    assert [source.prompt(i) for i in range(source.size)] == [Prompt(id=id_, text="") for id_ in ("0", "1", "2")]


def test_columns_are_those_of_every_prompt() -> None:
    source = EpisodeSeeds(size=2, columns={"environment": "blackjack", "level": 3})
    assert [source.prompt(i).columns for i in range(2)] == [{"environment": "blackjack", "level": 3}] * 2
    assert "level" in repr(source)


def test_no_episode_is_refused() -> None:
    with pytest.raises(ValueError, match="size >= 1, got 0"):
        EpisodeSeeds(size=0)
