import pytest

from lightrl import EpisodeSeeds, Prompt, PromptData


def test_every_number_is_an_episode_of_its_own() -> None:
    source = EpisodeSeeds(size=3)
    assert [source.prompt(i) for i in range(source.size)] == [Prompt(id=id_, text="") for id_ in ("0", "1", "2")]


def test_columns_are_those_of_every_prompt() -> None:
    source = EpisodeSeeds(size=2, columns={"environment": "blackjack", "level": 3})
    assert [source.prompt(i).columns for i in range(2)] == [{"environment": "blackjack", "level": 3}] * 2
    assert "level" in repr(source)


def test_no_episode_is_refused() -> None:
    with pytest.raises(ValueError, match="size >= 1, got size=0"):
        EpisodeSeeds(size=0)


def test_other_episodes_are_held_out_and_the_same_ones_left_out_of_training() -> None:
    data = PromptData(train=EpisodeSeeds(size=10), validation_size=3)
    assert (data.sizes()["train"], data.sizes()["validation"]) == (7, 3)
    data = PromptData(train=EpisodeSeeds(size=10), validation=EpisodeSeeds(size=4))
    assert (data.sizes()["train"], data.sizes()["validation"]) == (6, 4)
    other = PromptData(train=EpisodeSeeds(size=10), validation=EpisodeSeeds(size=4, columns={"environment": "taxi"}))
    assert (other.sizes()["train"], other.sizes()["validation"]) == (10, 4)
