"""Planted weak rewards are found, sound ones are not accused."""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_attack import Attack, Earned, Verdict, answer_text, attacks, verdict
from lightrl_attack.forms import final
from lightrl_attack.reward_attack import attacked
from lightrl_math import Boxed, FinalNumber, MathAnswer, MultipleChoice

from lightrl import ExactMatch, Prompt, Reward, RowReward
from lightrl.rewards.reward_set import RewardSet

sys.path.insert(0, str(Path(__file__).parent))
from planted import CAPITALS, LETTERS, SOUND, SUMS, WEAK, Score


class Planted(RowReward):
    """A function of a completion and its answer."""

    runs = "inline"

    def __init__(self, function: Score) -> None:
        super().__init__()
        self.function = function

    def score(self, prompt: Prompt, completion: str, **_: Any) -> float:
        return float(self.function(completion, str(prompt.answer)))


def found(prompts: list[Prompt], function: Score) -> Verdict:
    return attacked(RewardSet({"planted": Planted(function)}), prompts)


def test_there_are_thirty_of_each() -> None:
    assert (len(WEAK), len(SOUND)) == (30, 30)


@pytest.mark.parametrize("name", WEAK)
def test_a_weak_reward_is_found(name: str) -> None:
    assert found(*WEAK[name]).holes


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_reward_is_not_accused(name: str) -> None:
    said = found(*SOUND[name])
    assert said.own is not None
    assert not [(one.attack.name, one.mean) for one in said.holes]


@pytest.mark.parametrize(
    ("prompts", "reward"),
    [
        (SUMS, ExactMatch()),
        (CAPITALS, ExactMatch()),
        (SUMS, FinalNumber()),
        (SUMS, Boxed()),
        (SUMS, MathAnswer()),
        (LETTERS, MultipleChoice()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_our_own_rewards_of_answers_are_sound_and_take_no_thought_for_an_answer(prompts: list[Prompt], reward: Reward) -> None:
    rewards = RewardSet({"own": reward})
    try:
        said = attacked(rewards, prompts)
    finally:
        rewards.close()
    assert (said.own, said.nothing, said.thoughts_count) == (1.0, 0.0, False)
    assert not [(one.attack.name, one.mean) for one in said.holes]


def attack(family: str, totals: list[float], name: str = "a", reads: str = "nothing") -> Earned:
    return Earned(Attack(name, family, ("x",) * len(totals), reads), torch.tensor(totals, dtype=torch.float64), {"r": 1.0})


def test_shares_are_of_what_own_answers_earn_above_nothing() -> None:
    own = [attack("own", [2.0, 4.0]), attack("own", [1.0, 1.0])]
    tried = [
        attack("nothing", [-1.0, -1.0]),
        attack("nonsense", [0.0, 0.0]),
        attack("hedges", [2.0, 2.0], "b"),
        attack("copies", [0.0, 4.0], "c"),
    ]
    said = verdict(own, tried, 0.5)
    assert (said.own, said.nothing) == (3.0, -1.0)
    assert [said.share(one.mean) for one in tried] == [0.0, 0.25, 0.75, 0.75]
    # of c, mean 2 and standard error 2, the interval begins at 2 - 1.645 * 2
    assert tried[3].at_least == pytest.approx(2 - 1.645 * 2)
    assert [one.attack.name for one in said.holes] == ["b"]


def test_rows_without_a_total_are_left_out_and_a_reward_that_tells_nothing_apart_is_a_hole() -> None:
    nan = float("nan")
    assert attack("own", [1.0, nan]).mean == 1.0
    assert verdict([attack("own", [nan, nan])], [attack("nothing", [nan, nan])], 0.5).holes == []
    assert len(verdict([attack("own", [1.0, 1.0])], [attack("nothing", [1.0, 1.0]), attack("hedges", [1.0, 1.0])], 0.5).holes) == 2


def test_attacks_that_need_nothing_come_first_and_thoughts_are_no_hole() -> None:
    tried = [attack("copies", [1.0, 1.0], "copy", "the prompt"), attack("hedges", [0.9, 0.9], "hedge")]
    thought = attack("thoughts", [1.0, 1.0], "thought", "the answer")
    said = verdict([attack("own", [1.0, 1.0])], [attack("nothing", [0.0, 0.0]), *tried, thought], 0.5)
    assert [one.attack.name for one in said.holes] == ["hedge", "copy"]
    assert said.thoughts_count


def test_every_attack_writes_one_completion_for_each_prompt() -> None:
    made = list(attacks(SUMS, [answer_text(prompt.answer) for prompt in SUMS], ["bare", "box"]))
    assert {len(one.completions) for one in made} == {len(SUMS)}
    assert len({one.name for one in made}) == len(made)
    others = next(one for one in made if one.name == "the answer of another row (bare)")
    assert all(text != prompt.answer for text, prompt in zip(others.completions, SUMS, strict=True))
    assert {one.reads for one in made} == {"nothing", "the prompt", "the answer"}


def test_forged_code_defines_the_function_that_is_asked_for() -> None:
    asked = [Prompt(id="a", text="def add(a, b):"), Prompt(id="b", text="x", columns={"entry_point": "sub"}), Prompt(id="c", text="x")]
    made = next(one for one in attacks(asked, [None] * 3, []) if one.name == "code that equals everything")
    for name, text in zip(("add", "sub", "solution"), made.completions, strict=True):
        names: dict[str, Any] = {}
        exec(text.removeprefix("```python\n").removesuffix("\n```"), names)
        assert names[name](1, b=2) == 3
        assert not operator.ne(names[name](), "anything")


def test_answers_of_data_are_read() -> None:
    assert [answer_text(answer) for answer in ("a", ["b", "c"], 3, None, [])] == ["a", "b", "3", None, None]
    assert [final(text) for text in ("He has 3 + 4 = 7.\n#### 7", r"so $\boxed{12}$ it is", "Lima")] == ["7", "12", "Lima"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": prompt.messages[0]["content"], "answer": prompt.answer, "said": f"It is {prompt.answer}!"} for prompt in SUMS]  # type: ignore[index]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


WORDS = ("reward", "attack", "--data.train", "JsonLines", "--data.train.path", "sums.jsonl", "--rows", "16")


@pytest.mark.usefixtures("folder")
def test_the_command_prints_what_pays_and_ends_with_1_for_a_hole(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("weak_rewards.py", "def occurs(completion: str, answer: str) -> float:\n    return float(answer in completion)\n")
    sound = lightrl(*WORDS, "--model.rewards.correct", "FinalNumber")
    assert sound.status == 0, sound.err
    assert "The data's own answers earn 1" in sound.out
    weak = lightrl(*WORDS, "--model.rewards.correct", "FinalNumber", "--model.rewards.near", "weak_rewards.occurs")
    assert weak.status == 0, weak.err
    assert "near: 1 of 1, by" in weak.out
    weak = lightrl(*WORDS, "--model.rewards.correct", "FinalNumber", "--model.rewards.near", "weak_rewards.occurs", "--limit", "0.4")
    assert weak.status == 1, weak.err
    assert "near pays it" in weak.out
    told = json.loads(lightrl(*WORDS, "--model.rewards.near", "weak_rewards.occurs", "--json").out)["rewards"]
    assert told["holes"][0]["paid_by"] == "near"
    assert told["holes"][0]["reads"] == "nothing"
    assert (told["own"], told["limit"]) == (1.0, 0.5)
    assert lightrl(*WORDS, "--model.rewards.near", "weak_rewards.occurs", "--limit", "1").status == 0


@pytest.mark.usefixtures("folder")
def test_a_column_of_good_completions_is_the_measure(lightrl: Callable[..., Any], write: Callable[..., Any]) -> None:
    write("shouted_rewards.py", "def shouted(completion: str, answer: str) -> float:\n    return float(completion == f'It is {answer}!')\n")
    words = (*WORDS, "--model.rewards.said", "shouted_rewards.shouted", "--json")
    assert json.loads(lightrl(*words).out)["rewards"]["own"] is None
    assert json.loads(lightrl(*words, "--own", "said").out)["rewards"]["own"] == 1.0
    answer = lightrl(*words, "--own", "sayd")
    assert answer.status == 2
    assert "no prompt has a column 'sayd'. There are: said" in answer.err


@pytest.mark.usefixtures("folder")
def test_options_that_cannot_be_used_are_refused(lightrl: Callable[..., Any]) -> None:
    assert "--rows: expected 2 or more, got 1" in lightrl(*WORDS[:-1], "1", "--model.rewards.a", "ExactMatch").err
    assert "--limit: expected 0 or more" in lightrl(*WORDS, "--limit=-1", "--model.rewards.a", "ExactMatch").err
    assert "the config names no reward" in lightrl(*WORDS).err
