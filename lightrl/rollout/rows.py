"""The rows of a rollout while it is being generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lightrl.parts.engine import SampledPolicy, Sampling
from lightrl.rollout.slices import Slice
from lightrl.types import Prompt, Rollout

if TYPE_CHECKING:
    from lightrl.rollout.decoding import DecodedTokens


class RolloutRows:
    """Encodes the prompts, takes completions in any order of rows, and gives the rollout."""

    def __init__(self, policy: SampledPolicy, prompts: list[Prompt], n: int, version: int, sampling: Sampling) -> None:
        """
        Args:
            policy: encodes and decodes.
            prompts: B of them.
            n: completions per prompt.
            version: of the policy.
            sampling: how tokens are drawn.

        Raises:
            ValueError: a prompt leaves no position for an answer.
        """
        self._policy, self._prompts, self._version, self._sampling = policy, prompts, version, sampling
        self.n = n
        self.device: torch.device = next(policy.model.parameters()).device
        self.encoded = [policy.encode(prompt) for prompt in prompts]
        """B lists of token ids."""
        self.prompt_lengths = [len(ids) for ids in self.encoded]
        """Tokens of each of the B prompts."""
        self.limits = torch.tensor([self._limit(i) for i in range(len(prompts))], dtype=torch.long, device=self.device)
        self.limits = self.limits.repeat_interleave(n)
        """`[N]` the most tokens that each row may get."""
        self._done: list[tuple[Tensor, DecodedTokens]] = []

    def index(self, part: Slice) -> Tensor:
        """Numbers of the rows of a slice, in the order in which they are decoded."""
        return torch.tensor([prompt * self.n + sample for prompt in part.prompts for sample in part.samples], device=self.device)

    def take(self, index: Tensor, completions: DecodedTokens) -> None:
        """Take the completions of the rows with these numbers.

        Raises:
            FloatingPointError: a log-prob is NaN.
        """
        broken = (completions.logprobs.isnan() & completions.mask).any(1)
        if broken.any():
            prompt = self._prompts[int(index[broken][0]) // self.n]
            raise FloatingPointError(
                f"the policy gave NaN logits for {int(broken.sum())} of {len(index)} rows (first for prompt {prompt.id!r}): "
                "its weights are no longer finite, or its precision is too narrow"
            )
        self._done.append((index, completions))

    def rollout(self) -> Rollout:
        """The rollout of all rows, padded on the right."""
        rows = len(self._prompts) * self.n
        starts = torch.tensor(self.prompt_lengths, dtype=torch.long, device=self.device).repeat_interleave(self.n)
        responses = torch.zeros(rows, dtype=torch.long, device=self.device)
        stopped = torch.zeros(rows, dtype=torch.bool, device=self.device)
        for index, done in self._done:
            responses[index], stopped[index] = done.mask.sum(1), done.stopped
        length = int((starts + responses).max()) if rows else 1
        positions = torch.arange(length, device=self.device)
        input_ids = torch.zeros(rows, length, dtype=torch.long, device=self.device)
        logprobs = torch.zeros(rows, length, dtype=torch.float32, device=self.device)
        for i, ids in enumerate(self.encoded):
            input_ids[i * self.n : (i + 1) * self.n, : len(ids)] = torch.tensor(ids, device=self.device)
        for index, done in self._done:
            row, column = done.mask.nonzero(as_tuple=True)
            target = (index[row], starts[index[row]] + column)
            input_ids[target], logprobs[target] = done.tokens[row, column], done.logprobs[row, column]
        attention_mask = positions < (starts + responses)[:, None]
        return Rollout(
            prompts=[prompt for prompt in self._prompts for _ in range(self.n)],
            completions=self._texts(input_ids, starts, responses, stopped),
            input_ids=input_ids,
            attention_mask=attention_mask,
            response_mask=attention_mask & (positions >= starts[:, None]),
            rollout_logprobs=logprobs,
            group=torch.arange(len(self._prompts), device=self.device).repeat_interleave(self.n),
            finish_reason=["stop" if s else "length" for s in stopped.tolist()],
            policy_version=torch.full((rows,), self._version, device=self.device),
            temperature=self._sampling.temperature or 1.0,
        )

    def _texts(self, input_ids: Tensor, starts: Tensor, responses: Tensor, stopped: Tensor) -> list[str]:
        texts = []
        for ids, start, count, stop in zip(input_ids.tolist(), starts.tolist(), responses.tolist(), stopped.tolist(), strict=True):
            response = ids[start : start + count]
            # an EOS id that the tokenizer does not call special would show in the text
            closing = stop and response[-1] in self._policy.eos_token_ids
            texts.append(self._policy.decode(response[:-1] if closing else response))
        return texts

    def _limit(self, index: int) -> int:
        most, taken = self._policy.max_positions, self.prompt_lengths[index]
        if most is None:
            return self._sampling.max_new_tokens
        if taken >= most:
            raise ValueError(
                f"prompt {self._prompts[index].id!r} has {taken} tokens and the policy takes rows of at most {most}, which leaves no "
                "position for an answer: shorten or leave out prompts of this length"
            )
        return min(self._sampling.max_new_tokens, most - taken)
