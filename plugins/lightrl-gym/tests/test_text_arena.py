import copy
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_gym import EarlyWin, TextArena
from lightrl_gym.text_arena import playable

from lightrl import Prompt, Reply

GUESS = "GuessTheNumber-v0-raw"
SEED = Prompt(id="0", text="")


def begun(seed: int = 0, **arguments: Any) -> TextArena:
    game = TextArena(GUESS, action="[{completion}]", **arguments)
    game.begin(SEED, seed)
    return game


def secret(seed: int) -> int:
    """The number that the hints lead to."""
    for guess in range(1, 21):
        if begun(seed).reply(str(guess)).done:
            return guess
    raise AssertionError("no number from 1 to 20 is the secret")


def play(game: TextArena, completions: list[str]) -> list[Reply]:
    replies: list[Reply] = []
    for completion in completions:
        replies.append(game.reply(completion))
        if replies[-1].done:
            break
    return replies


def test_binary_search_wins_within_five_guesses() -> None:
    for seed in range(20):
        game, low, high = begun(seed), 1, 20
        for _ in range(5):
            guess = (low + high) // 2
            reply = game.reply(str(guess))
            if reply.done:
                break
            assert reply.reward is None
            assert reply.said in ("The target number is lower.", "The target number is higher.")
            low, high = (guess + 1, high) if "higher" in str(reply.said) else (low, guess - 1)
        assert reply.done
        assert reply.reward == 1.0
        assert reply.said == "Congratulations! You guessed the correct number."
        assert reply.state is not None
        assert reply.state["won"] is True


def test_the_seed_decides_the_secret() -> None:
    found = [secret(seed) for seed in range(20)]
    assert found == [secret(seed) for seed in range(20)]
    assert len(set(found)) > 5


def test_the_rewards_of_the_package() -> None:
    """The package counts one turn more than it says; who runs out of turns gets 1 - distance of the last guess / 19."""
    number = secret(3)
    wrong = [guess for guess in range(1, 21) if guess != number][:11]
    replies = play(begun(3), [str(guess) for guess in wrong])
    assert len(replies) == 11
    assert [reply.reward for reply in replies[:-1]] == [None] * 10
    assert replies[-1].reward == pytest.approx(1 - abs(wrong[-1] - number) / 19)
    assert replies[-1].state == {
        "won": False,
        "turns": 11,
        "wrong_move": False,
        "reason": f"The turn limit has been reached. Guess: {wrong[-1]}, Target: {number}",
    }


def test_a_wrong_move_is_told_and_a_second_one_ends() -> None:
    first, second = play(begun(3), ["x", "99", "1"])
    assert "did not respond with valid '[number]'" in str(first.said)
    assert not first.done
    assert (second.done, second.reward) == (True, 0.0)
    assert second.state is not None
    assert second.state["wrong_move"] is True


def test_each_reply_is_only_new() -> None:
    game = begun(3)
    replies = [str(game.reply(str(guess)).said) for guess in (1, 20, 2)]
    assert all(len(said) < 40 for said in replies)


@pytest.mark.parametrize(
    ("prompt", "arguments", "expected"),
    [
        (SEED, {"opening": "1-20?", "chat": False}, "1-20?"),
        (SEED, {"opening": "1-20?"}, [{"role": "user", "content": "1-20?"}]),
        (Prompt(id="0", text="Guess."), {"opening": "1-20?", "chat": False}, "Guess."),
        (
            Prompt(id="0", messages=({"role": "system", "content": "Play."}, {"role": "user", "content": "Go."})),
            {},
            [{"role": "system", "content": "Play."}, {"role": "user", "content": "Go."}],
        ),
    ],
)
def test_openings(prompt: Prompt, arguments: dict[str, Any], expected: Any) -> None:
    assert TextArena(GUESS, **arguments).begin(prompt, 0) == expected


def test_the_package_opens_by_itself_and_shows_its_board() -> None:
    opening = TextArena(GUESS, chat=False).begin(SEED, 0)
    assert "between 1 and 20 within 10 turns" in str(opening)
    short = str(TextArena("FrozenLake-v0-raw", opening="Walk.", chat=False).begin(SEED, 0))
    assert short.startswith("Walk.\n")
    assert "G" in short


@given(st.integers(0, 2**31 - 1), st.lists(st.sampled_from(["3", "20", "x", "7", "21", "7"]), max_size=6))
@settings(max_examples=30, deadline=None)
def test_an_episode_is_a_function_of_seed_and_completions(seed: int, completions: list[str]) -> None:
    random.seed(seed)
    first = play(begun(seed), completions)
    random.seed(-1)
    again = pickle.loads(pickle.dumps(TextArena(GUESS, action="[{completion}]")))
    again.begin(SEED, seed)
    assert play(again, completions) == first


def test_episodes_are_apart() -> None:
    template = TextArena(GUESS, action="[{completion}]")
    one, two = copy.deepcopy(template), copy.deepcopy(template)
    one.begin(SEED, 1)
    two.begin(SEED, 2)
    one.reply("5")
    assert two.reply("5").said != "You attempted an invalid move."


def test_arguments_of_the_game() -> None:
    game = TextArena(GUESS, arguments={"max_number": 3, "max_turns": 4}, chat=False)
    assert "between 1 and 3 within 4 turns" in str(game.begin(SEED, 0))
    assert game.max_turns == 10
    assert TextArena("2048-v0-raw").max_turns == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"game": "GuessTheNumber"}, r"no game 'GuessTheNumber'; near it: GuessTheNumber-v0-raw.*there are: 2048-v0-10x10-raw"),
        ({"game": "GuessTheNumber-v0"}, r"whole history in every turn; near it: GuessTheNumber-v0-raw"),
        ({"game": "Hangman-v0-raw"}, r"downloads word lists"),
        ({"game": "Wordle-v0-raw"}, r"downloads word lists"),
        ({"game": "TwentyQuestions-v0-raw"}, r"asks a language model"),
        ({"game": "Nim-v0-raw"}, r"more than one player"),
        ({"game": GUESS, "arguments": {"highest": 9}}, r"unexpected keyword argument 'highest'"),
        ({"game": GUESS, "action": "[]"}, r"\{completion\} in it, once"),
        ({"game": GUESS, "max_turns": 0}, r"max_turns >= 1"),
    ],
)
def test_games_that_cannot_be_played(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TextArena(**arguments)


def test_the_games_that_can_be_played_begin() -> None:
    # one of each class of games; a variant that searches long for its level is left out
    names = {name.partition("-")[0]: name for name in reversed(playable()) if "Sokoban-v0-medium" not in name}
    assert len(names) >= 20
    for name in names.values():
        assert TextArena(name, chat=False).begin(SEED, 0)


def test_an_early_win_is_worth_more() -> None:
    reward = EarlyWin(cost=0.1)
    assert reward.score(SEED, "7", turns=1, state={"won": True}) == 1.0
    assert reward.score(SEED, "7", turns=5, state={"won": True}) == pytest.approx(0.6)
    assert reward.score(SEED, "7", turns=1, state={"won": False}) == 0.0
    with pytest.raises(ValueError, match="no `won`, it has: turns"):
        reward.score(SEED, "7", turns=1, state={"turns": 1})
    with pytest.raises(ValueError, match="cost >= 0"):
        EarlyWin(cost=-1.0)


def test_m1_a_move_that_was_only_thought_is_none() -> None:
    one, two = begun(3), begun(3)
    assert one.reply("<think>[5] or [6]?</think>7").said == two.reply("7").said
