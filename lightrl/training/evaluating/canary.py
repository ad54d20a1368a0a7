"""The canary: after every update of an engine with weights of its own, its log-probs are compared with the trainer's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lightrl.ops.agreement import Agreement, Answer, Limits, stood_still
from lightrl.parts.engine import RolloutEngine
from lightrl.policy.policy import Policy
from lightrl.rollout.loop import LoopObserver
from lightrl.rollout.probe import ROWS
from lightrl.types import Rollout


class Canary:
    """Compares the answers of an engine to the same requests with the trainer, after each update."""

    agreement = Agreement.of(())
    """Of the last answers."""
    _before: Sequence[Answer] = ()

    def look(self, answers: Rollout, policy: Policy, device: torch.device, limits: Limits) -> str | None:
        """A complaint, if the engine does not have the trainer's weights, by its answers to the same requests in every call.

        The policy's forward runs `ROWS` times on every rank, since a strategy that shards weights gathers them in each.
        """
        before, now = self._before, answers_of(answers, policy, device)
        self._before, self.agreement = now, Agreement.of(now)
        if len(before) == len(now) and stood_still(before, now):
            return (
                "it answers as it did before the update, so the weights have not arrived (its update_weights), or it drops what has "
                "changed, such as adapters"
            )
        if self.agreement.within(limits):
            return None
        return (
            f"{self.agreement.against(limits)}. Either it has other weights (its update_weights), or it computes otherwise than the "
            "trainer: compare precision, temperature and the model's config. An engine whose log-probs are known to be less exact says so "
            "by its logprob_tolerance"
        )


@torch.no_grad()
def answers_of(rollout: Rollout, policy: Policy, device: torch.device) -> list[Answer]:
    """The first `ROWS` rows that have sampled tokens, with the trainer's log-probs of these."""
    found = []
    for ids, mask, engine in _rows(rollout):
        chosen = mask.cpu()
        trainer = policy(ids.to(device), mask.to(device), rollout.temperature).logprobs.cpu()[chosen]
        if len(trainer):
            found.append(Answer(ids.cpu()[chosen].tolist(), engine.cpu()[chosen].tolist(), trainer.tolist()))
    return found


class PolicyWatch(LoopObserver):
    """Compares an engine with weights of its own with a policy after each update, where no trainer does it."""

    def __init__(self, engine: RolloutEngine, policy: Policy) -> None:
        self._engine, self._policy, self._canary = engine, policy, Canary()

    def on_answers(self, answers: Rollout) -> None:
        """Compare the answers; a RuntimeError if the engine does not have the policy's weights."""
        engine, policy = self._engine, self._policy
        limits = Limits.of(policy.model.dtype, engine.logprob_tolerance)
        if complaint := self._canary.look(answers, policy, next(policy.parameters()).device, limits):
            raise mismatch(type(engine).__name__, 0, complaint)


def mismatch(engine: str, step: int, complaint: str) -> RuntimeError:
    """The error of an engine whose log-probs are not the trainer's."""
    return RuntimeError(f"{engine} does not sample from the trainer's weights, after their update at step {step}: {complaint}")


def _rows(rollout: Rollout) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """`ROWS` rows of ids, mask and log-probs, `[1, L]` each; two tokens without a response where there are fewer."""
    sampled = (rollout.response_lengths > 0).nonzero()[:ROWS, 0].tolist()
    for row in sampled:
        only, until = slice(row, row + 1), slice(int(rollout.lengths[row]))
        yield rollout.input_ids[only, until], rollout.response_mask[only, until], rollout.rollout_logprobs[only, until]
    for _ in range(ROWS - len(sampled)):
        yield torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.bool), torch.zeros(1, 2)
