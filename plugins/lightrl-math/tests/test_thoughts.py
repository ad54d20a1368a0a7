"""A thought is no answer, in any reward."""

import pytest
from lightrl_math import Boxed, FinalNumber, MathAnswer, MultipleChoice

from lightrl import Prompt, RowReward

PROMPT = Prompt(id="p", text="?")
SCORES = {"correct": 1.0, "wrong": -1.0, "unparsable": -2.0}
REWARDS = [FinalNumber(**SCORES), MathAnswer(**SCORES), Boxed(**SCORES), MultipleChoice(**SCORES)]


@pytest.mark.parametrize("reward", REWARDS, ids=lambda reward: type(reward).__name__)
@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (r"<think>\boxed{RIGHT}", -2.0),
        (r"<think>\boxed{RIGHT}</think>", -2.0),
        (r"<think>\boxed{RIGHT}</think> I do not know.", -2.0),
        (r"I do not know. <think>\boxed{RIGHT}", -2.0),
        (r"<think>\boxed{WRONG}</think>\boxed{RIGHT}", 1.0),
        (r"<think>\boxed{RIGHT}</think>\boxed{WRONG}", -1.0),
        (r"\boxed{WRONG}</think>\boxed{RIGHT}", 1.0),
        (r"<think>one</think><think>\boxed{WRONG}</think>\boxed{RIGHT}", 1.0),
        (r"<think>\boxed{WRONG}</think>\boxed{RIGHT}<think>\boxed{WRONG}", 1.0),
    ],
)
def test_m1_a_thought_is_no_answer(reward: RowReward, completion: str, score: float) -> None:
    right, wrong = ("C", "B") if isinstance(reward, MultipleChoice) else ("5", "6")
    text = completion.replace("RIGHT", right).replace("WRONG", wrong)
    assert reward.score(PROMPT, text, answer=right) == score
    if score == -2.0:
        assert reward.answer_in(text) is None


@pytest.mark.parametrize("completion", ["<think>The answer is 5</think>", "<think>#### 5", "<think>5</think>", "<think>5"])
def test_m1_nor_is_a_number_in_one(completion: str) -> None:
    for reward in REWARDS[:2]:
        assert reward.score(PROMPT, completion, answer="5") == -2.0
        assert reward.score(PROMPT, f"{completion}</think>The answer is 5", answer="5") == 1.0
