"""After every update: are the weights that a server answers with those of the trainer, and do its log-probs say so?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightrl import Agreement, Answer, Limits, PolicyWeights, stood_still
from lightrl_servers.server import ServerError
from lightrl_servers.weight_reload import REPAIR
from lightrl_servers.words import Words


@dataclass(frozen=True)
class Row:
    """Tokens that a server has sampled behind the context of the probes."""

    address: str
    likeliest: bool
    """Sampled at temperature 0, or as in training."""
    temperature: float
    """Of its log-probs, above 0."""
    context: list[int]
    """Token ids in front of them."""
    tokens: list[int]
    logprobs: list[float]


class UpdateCheck:
    """Compares rows of each server with the trainer's own forward; knows the answers from before the update."""

    def __init__(self, tolerance: float | None, words: Words) -> None:
        self._tolerance, self._words = tolerance, words
        self._before: dict[tuple[str, bool], Answer] = {}
        self._version: int | None = None

    def compare(self, rows: list[dict[str, Any]], weights: PolicyWeights, version: int) -> None:
        """Refuse an update that has not arrived, by fields of `Row`, the same on every rank; a ServerError says what its log-probs are."""
        limits = Limits.of(weights.compute_dtype, self._tolerance)
        judged = [_Judged(row, weights, limits) for row in (Row(**fields) for fields in rows)]
        for address in dict.fromkeys(one.row.address for one in judged):
            of_server = [one for one in judged if one.row.address == address]
            self._refuse_old(of_server, version)
            agreed = False
            for one in of_server:
                if not one.agreement.within(limits):
                    raise ServerError(
                        f"{address}: after the update to version {version} its log-probs at temperature {one.row.temperature:g} are not "
                        f"the trainer's: {one.agreement.against(limits)}: {one.reason(agreed, self._words)}"
                    )
                agreed = True
        self._before = {one.key: one.answer for one in judged}
        self._version = version

    def _refuse_old(self, of_server: list[_Judged], version: int) -> None:
        known = [one for one in of_server if one.key in self._before]
        if stood_still([self._before[one.key] for one in known], [one.answer for one in known]):
            raise ServerError(
                f"{of_server[0].row.address}: after the update to version {version} it answers as it did with version {self._version}, so "
                f"the weights have not arrived; {REPAIR}"
            )


class _Judged:
    """A row beside the trainer's own log-probs of it."""

    def __init__(self, row: Row, weights: PolicyWeights, limits: Limits) -> None:
        self.row, self._weights, self._limits = row, weights, limits
        self.key = row.address, row.likeliest
        self.answer = Answer(row.tokens, row.logprobs, weights.logprobs(row.context, row.tokens, row.temperature))
        self.agreement = Agreement.of([self.answer])

    def reason(self, others_agree: bool, words: Words) -> str:
        """The verdict on the log-probs; collective, since the trainer computes them at another temperature."""
        row, ours = self.row, list(self.answer.trainer)
        untempered = self._weights.logprobs(row.context, row.tokens, 1.0)
        if self._agree(ours[1:], row.logprobs[:-1]) or self._agree(ours[:-1], row.logprobs[1:]):
            return "they are those of the trainer one token off, so entry t is not of token t"
        if self._agree(untempered, row.logprobs):
            return f"they are those at temperature 1; {words.tempered}"
        if others_agree:
            return "those of likeliest tokens agree, so that the weights are right and the log-probs are not of logits / temperature"
        return f"its weights are not the policy's. {words.other_weights}. Or raise model.engine.tolerance; {REPAIR}"

    def _agree(self, ours: list[float], theirs: list[float]) -> bool:
        return Agreement.of([Answer([], theirs, ours)]).within(self._limits)
