"""A judge that labels pairs of completions."""

from typing import Any

from lightrl import Prompt
from lightrl_judge.judge import Judge
from lightrl_judge.pairwise import SYSTEM, TEMPLATE, PairwiseJudge


class JudgePair(Judge):
    """Which of two completions of a prompt a language model prefers; for `lightrl reward pairs`, which labels pairs for DPO.

    R = 1 if the completion wins in both orders, 0 if the other one does, 0.5 for a tie in both. Where the order makes a difference there
    is no judgement, and the reward abstains.

    Source: Zheng et al. 2023, arXiv:2306.05685, sections 3.1 (pairwise comparison) and 3.4 (swapping positions).
    """

    def __init__(self, model: str, template: str = TEMPLATE, system: str = SYSTEM, **kwargs: Any) -> None:
        """
        Args:
            model: the judge's name on the server.
            template: the question, with the fields `{prompt}`, `{a}`, `{b}`, `{answer}` and columns of the data.
            system: the system prompt, without fields; empty: none.
            **kwargs: the endpoint, and the other arguments of `Judge`.

        Raises:
            ValueError: a template cannot be used.
        """
        super().__init__(model, **kwargs)
        self.template, self.system = template, system
        self._judge = PairwiseJudge(self._chat, template, system, self.ask_again, self.structured)
        self.accepts = dict.fromkeys(sorted(self._judge.columns | {"other"}), True)

    def requests(self, prompt: Prompt, completion: str, **columns: Any) -> int:
        """One in each order."""
        return 2

    async def score(self, prompt: Prompt, completion: str, **columns: Any) -> float | None:  # type: ignore[override]
        """1, 0 or 0.5; None where the two orders contradict each other.

        Args:
            prompt: what was asked.
            completion: the one completion.
            **columns: `other`, the other completion, and what the template names.

        Raises:
            JudgeError: there is no verdict.
            UnavailableError: the server did not answer this time.
            ValueError: `other` is no text, or the prompt has nothing in a column that the template names.
        """
        other = columns["other"]
        if not isinstance(other, str):
            raise ValueError(f"prompt {prompt.id!r}: the column 'other' must hold a completion to compare with, got {other!r:.60}")
        verdict = await self._judge.compare(prompt, completion, other, columns)
        return verdict.value if verdict.agreed else None
