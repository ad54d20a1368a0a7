"""Rewards that ask a language model for its judgement, over any OpenAI-compatible endpoint."""

from lightrl import hookimpl
from lightrl_judge.budget import Budget
from lightrl_judge.chat import Chat
from lightrl_judge.judge import JudgeScore
from lightrl_judge.pairwise import JudgePair, JudgePreference, PairwiseJudge, Verdict

__all__ = ["Budget", "Chat", "JudgePair", "JudgePreference", "JudgeScore", "PairwiseJudge", "Verdict"]


@hookimpl
def lightrl_rewards() -> list[type]:
    return [JudgePair, JudgePreference, JudgeScore]
