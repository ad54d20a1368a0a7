"""A reward in ten lines: `lightrl fit --config grpo_sort --model.rewards.close custom_reward.in_place`, from the folder of this file.

A function is a reward: it takes what it names (`prompt`, `completion`, and any column of the data set) and returns a number, or None
where it has nothing to say. It runs in a process of its own; what it raises is counted and leaves the statistics.
"""


def in_place(completion: str, answer: str) -> float:
    """The share of the answer's characters that stand where they should."""
    return sum(a == b for a, b in zip(completion, answer, strict=False)) / len(answer)
