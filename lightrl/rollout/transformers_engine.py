"""The built-in rollout engine: decodes with the policy's own modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lightrl.ops.random import row_seed
from lightrl.parts.engine import RolloutEngine, SampledPolicy, Sampling
from lightrl.rollout.rows import RolloutRows
from lightrl.rollout.slices import slices
from lightrl.types import JSON, Prompt, Rollout


class TransformersEngine(RolloutEngine):
    """Generates with the policy being trained, token by token, for any Hugging Face causal LM.

    Each prompt is read once for its whole group and finished rows leave the batch. What a row says depends on the seed, the number of
    the call, the prompt's id and the number of the sample, not on the rows beside it.
    """

    exact_logprobs = True

    def __init__(
        self,
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        stop: list[str] | None = None,
        max_rows: int | None = None,
        seed: int = 0,
    ) -> None:
        """
        Args:
            max_new_tokens: limit on the tokens of a completion, EOS included.
            temperature: divides the logits; 0 takes the likeliest token.
            top_p: keep the likeliest tokens whose probabilities add up to this; in (0, 1].
            top_k: keep this many of the likeliest tokens; 0 keeps all.
            min_p: keep tokens at least this likely relative to the likeliest; in [0, 1).
            stop: a completion ends as soon as its text contains one of these.
            max_rows: completions generated at a time, which bounds the memory of keys and values; null: all of a call.
            seed: of the random numbers.

        Raises:
            ValueError: an argument outside its range.
        """
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"TransformersEngine needs max_rows >= 1 or null, got {max_rows}")
        self.sampling = Sampling(max_new_tokens, temperature, top_p, top_k, min_p, tuple(stop or ()))
        self.max_rows, self.seed = max_rows, seed
        self._calls, self._version = 0, 0
        self._policy: SampledPolicy | None = None

    def sync(self, policy: SampledPolicy, version: int) -> None:
        self._policy, self._version = policy, version

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """Completions for each prompt; see `RolloutEngine.generate`.

        Raises:
            RuntimeError: `sync` was never called.
            ValueError: n below 1, or a prompt that leaves no position for an answer.
            FloatingPointError: the policy's logits are NaN.
        """
        policy, call = self._ready(n), self._calls
        self._calls += 1
        sampling = sampling or self.sampling
        rows = RolloutRows(policy, list(prompts), n, self._version, sampling)
        if prompts:
            seeds = self._seeds(prompts, n, call, rows.device)
            with _evaluation_mode(policy.model):
                self._fill(policy, rows, seeds, sampling)
        return rows.rollout()

    def state_dict(self) -> dict[str, JSON]:
        return {"calls": self._calls}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        self._calls = int(state["calls"])

    def _ready(self, n: int) -> SampledPolicy:
        if self._policy is None:
            raise RuntimeError("TransformersEngine.generate was called before sync(policy, version): there are no weights to sample from")
        if n < 1:
            raise ValueError(f"generate needs n >= 1 completions per prompt, got {n}")
        return self._policy

    def _fill(self, policy: SampledPolicy, rows: RolloutRows, seeds: Tensor, sampling: Sampling) -> None:
        from lightrl.rollout.decoding import Decoding
        from lightrl.rollout.incremental import IncrementalModel
        from lightrl.rollout.stops import StopStrings

        model = IncrementalModel(policy.model, policy.max_positions)
        eos = torch.tensor(sorted(policy.eos_token_ids), device=rows.device)
        special = policy.tokenizer.all_special_ids
        for part in slices(rows.prompt_lengths, rows.n, self.max_rows, model.takes_padding):
            index = rows.index(part)
            stops = StopStrings(sampling.stop, policy.decode, special, len(index)) if sampling.stop else None
            decoding = Decoding(model, sampling, eos, stops)
            done = decoding.run([rows.encoded[i] for i in part.prompts], len(part.samples), seeds[index], rows.limits[index])
            rows.take(index, done)

    def _seeds(self, prompts: Sequence[Prompt], n: int, call: int, device: torch.device) -> Tensor:
        drawn: Counter[str] = Counter()
        seeds = []
        for prompt in prompts:
            # a prompt drawn twice in a call gets new samples
            seeds += [row_seed(self.seed, call, prompt.id, drawn[prompt.id] + i) for i in range(n)]
            drawn[prompt.id] += n
        return torch.tensor(seeds, device=device)


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
