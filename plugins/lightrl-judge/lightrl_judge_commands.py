"""The command that has a judge compare completions."""

from __future__ import annotations

from typing import Any

from lightrl import Command, hookimpl


class RewardPairs(Command):
    """Ask a judge which of two completions is better."""

    usage = (("--config judge.yaml --data completions.jsonl --out pairs.jsonl", "ask a judge which of two completions is better, for DPO"),)

    def run(self, words: list[str]) -> int:
        from lightrl_judge.reward_pairs import reward_pairs

        return reward_pairs(words)


@hookimpl
def lightrl_commands() -> list[type[Any]]:
    return [RewardPairs]
