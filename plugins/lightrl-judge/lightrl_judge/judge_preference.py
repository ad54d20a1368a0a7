"""A judge that compares completions with a reference."""

from collections.abc import Sequence
from typing import Any

from lightrl import Prompt
from lightrl_judge.judge import Judge
from lightrl_judge.pairwise import SYSTEM, TEMPLATE, PairwiseJudge
from lightrl_judge.template import column_text


class JudgePreference(Judge):
    """How often a language model prefers the completion to the prompt's reference.

    R = mean over the references of 1 for a win, 0.5 for a tie, 0 for a loss. Each is asked about in both orders, and what is
    no win and no loss in both is a tie.

    Source: Zheng et al. 2023, arXiv:2306.05685, sections 3.1 (pairwise comparison) and 3.4 (swapping positions).
    """

    def __init__(self, model: str, reference: str = "answer", template: str = TEMPLATE, system: str = SYSTEM, **kwargs: Any) -> None:
        """
        Args:
            model: the judge's name on the server.
            reference: the column with the text to compare with, or a list of them.
            template: the question, with the fields `{prompt}`, `{a}`, `{b}`, `{answer}` and columns of the data.
            system: the system prompt, without fields; empty: none.
            **kwargs: the endpoint, and the other arguments of `Judge`.

        Raises:
            ValueError: a template cannot be used, or the reference is no column.
        """
        super().__init__(model, **kwargs)
        if reference in ("prompt", "completion"):
            raise ValueError(f"JudgePreference compares with a column of the data, got reference: {reference}")
        self.reference, self.template, self.system = reference, template, system
        self._judge = PairwiseJudge(self._chat, template, system, self.ask_again, self.structured)
        self.accepts = dict.fromkeys(sorted(self._judge.columns | {reference}), True)

    def requests(self, prompt: Prompt, completion: str, **columns: Any) -> int:
        """One in each order, for each reference."""
        return 2 * len(self._references(prompt, columns))

    async def score(self, prompt: Prompt, completion: str, **columns: Any) -> float:  # type: ignore[override]
        """The completion's rate of wins.

        Args:
            prompt: what was asked.
            completion: the decoded response.
            **columns: the reference, and what the template names.

        Raises:
            JudgeError: there is no verdict.
            UnavailableError: the server did not answer this time.
            ValueError: the prompt has no reference, or nothing in a column that the template names.
        """
        verdicts = [await self._judge.compare(prompt, completion, reference, columns) for reference in self._references(prompt, columns)]
        return sum(verdict.value for verdict in verdicts) / len(verdicts)

    def _references(self, prompt: Prompt, columns: dict[str, Any]) -> list[str]:
        given = columns.get(self.reference)
        several = isinstance(given, Sequence) and not isinstance(given, str)
        if several and not given:
            raise ValueError(f"prompt {prompt.id!r} has an empty list in {self.reference!r}, which is to be compared with")
        return [column_text(prompt, self.reference, one) for one in (given if several else [given])]  # type: ignore[union-attr]
