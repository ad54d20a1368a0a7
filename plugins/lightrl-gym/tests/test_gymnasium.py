import copy
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_gym import Blackjack, FrozenLake, Taxi
from lightrl_gym.gym_environment import action_in

from lightrl import Prompt, Reply

SEED = Prompt(id="0", text="")
GAMES = {"Blackjack-v1": Blackjack, "FrozenLake-v1": FrozenLake, "Taxi-v4": Taxi}
LAKE = {"left": 0, "down": 1, "right": 2, "up": 3}


@pytest.mark.parametrize(
    ("completion", "action"),
    [
        ("left", 0),
        ("I go Down.", 1),
        ("2", 2),
        ("left or right? right", 2),
        ("<think>left</think>up", 3),
        ("<think>left</think>", None),
        ("upwards", None),
        ("12", None),
        ("4", None),
        ("", None),
    ],
)
def test_the_action_in_a_completion(completion: str, action: int | None) -> None:
    assert action_in(completion, LAKE) == action


def test_words_of_two_words() -> None:
    assert [action_in(text, Taxi.actions) for text in ("pick up", "Drop off!", "go up", "pickup", "5")] == [4, 5, 1, 4, 5]


@pytest.mark.parametrize("game", GAMES)
@given(seed=st.integers(0, 2**31 - 1), actions=st.lists(st.integers(0, 5), max_size=12))
@settings(max_examples=25, deadline=None)
def test_it_is_the_game_of_the_package(game: str, seed: int, actions: list[int]) -> None:
    theirs, ours = gymnasium.make(game), GAMES[game](chat=False)
    theirs.reset(seed=seed)
    ours.begin(SEED, seed)
    for action in actions:
        reply = ours.reply(str(action))
        if action >= theirs.action_space.n:
            assert reply.reward == 0.0
            assert reply.counts == {"wrong_actions": 1.0}
            continue
        _, reward, done, _, _ = theirs.step(action)
        assert (reply.reward, reply.done) == (reward, done)
        if done:
            break


@pytest.mark.parametrize("game", GAMES.values())
def test_the_same_seed_is_the_same_game(game: Any) -> None:
    template = game(chat=False)
    one, two = copy.deepcopy(template), copy.deepcopy(template)
    assert one.begin(SEED, 7) == two.begin(SEED, 7)
    assert [one.reply(a) for a in "010"] == [two.reply(a) for a in "010"]
    assert len({game(chat=False).begin(SEED, seed) for seed in range(20)}) > (1 if game is not FrozenLake else 0)


def test_a_hand_of_blackjack() -> None:
    hand = Blackjack(chat=False)
    assert str(hand.begin(SEED, 5)).endswith("You have 21 with an ace that counts 11. The dealer shows 9.")
    assert hand.reply("Hit!") == Reply("You have 18. The dealer shows 9.", 0.0, state={"won": False, "turns": 1, "reason": ""})
    last = hand.reply("I stand.")
    assert last.done
    assert last.reward in (-1.0, 0.0, 1.0)
    assert str(last.said).startswith("You have 18. The dealer has ")


def test_what_is_said_about_a_hand_is_what_it_brought() -> None:
    words = {1.0: "You win.", 0.0: "A draw.", -1.0: "You lose."}
    seen = set()
    for seed in range(40):
        hand = Blackjack(chat=False)
        hand.begin(SEED, seed)
        reply = hand.reply("stand")
        assert str(reply.said).endswith(words[float(reply.reward or 0.0)])
        yours, _, dealer = (int(word.rstrip(".")) if word.rstrip(".").isdigit() else 0 for word in str(reply.said).split()[2:9:3])
        seen.add(reply.reward)
        assert yours <= 21
        assert dealer == 0 or dealer >= 17
    assert seen == {1.0, 0.0, -1.0}


def test_the_lake_by_hand() -> None:
    lake = FrozenLake(is_slippery=False, chat=False, opening="Walk.")
    assert lake.begin(SEED, 0) == "Walk.\nPFFF\nFHFH\nFFFH\nHFFG"
    assert lake.reply("down").said == "SFFF\nPHFH\nFFFH\nHFFG"
    for word in ("down", "right", "down", "2"):
        assert lake.reply(word).reward == 0.0
    last = lake.reply("right")
    assert (last.reward, last.done, last.said) == (1.0, True, "You are at the goal.")
    assert last.state == {"won": True, "turns": 6, "reason": "You are at the goal."}


def test_a_hole() -> None:
    lake = FrozenLake(is_slippery=False)
    lake.begin(SEED, 0)
    lake.reply("right")
    assert lake.reply("down") == Reply(
        "You fell into a hole.", 0.0, True, {"won": False, "turns": 2, "reason": "You fell into a hole."}, {"won": 0.0}
    )


def test_maps_by_seed() -> None:
    maps = [str(FrozenLake(random_size=5, chat=False, opening="").begin(SEED, seed)) for seed in range(6)]
    assert len(set(maps)) == 6
    assert all(len(text.splitlines()) == 5 for text in maps)


def test_no_step_limit_but_max_turns() -> None:
    lake = FrozenLake(is_slippery=False)
    lake.begin(SEED, 0)
    assert not any(lake.reply("left").done for _ in range(150))


def test_a_ride() -> None:
    ride = Taxi(chat=False, opening="")
    first = str(ride.begin(SEED, 0))
    assert first.startswith("The taxi is at row ")
    assert ride.reply("drop off").reward == -10.0
    assert ride.reply("south").reward == -1.0


@pytest.mark.parametrize("ends", [False, True])
def test_a_turn_that_names_no_action(ends: bool) -> None:
    hand = Blackjack(wrong_reward=-0.5, wrong_ends=ends)
    hand.begin(SEED, 0)
    text = "That names no action. The actions are: stand, hit."
    state = {"won": False, "turns": 1, "reason": text if ends else ""}
    assert hand.reply("hm") == Reply(text, -0.5, ends, state, {"wrong_actions": 1.0})


@pytest.mark.parametrize(
    ("game", "arguments", "words"),
    [
        (FrozenLake, {"map_name": "5x5"}, "'4x4' or '8x8'"),
        (FrozenLake, {"random_size": 1}, "random_size >= 2"),
        (FrozenLake, {"success_rate": 1.5}, "0 <= success_rate <= 1"),
        (Blackjack, {"natural": True, "sab": True}, "not both"),
        (Taxi, {"max_turns": 0}, "max_turns >= 1"),
    ],
)
def test_impossible_games_are_refused(game: Any, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        game(**arguments)
