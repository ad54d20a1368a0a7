"""The policy's weights as engines get them, under every strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from lightrl.policy.adapted import AdaptedPolicy
from lightrl.policy.policy import Policy
from lightrl.policy.weight_access import WeightAccess
from lightrl.policy.written_model import write_model
from lightrl.strategies.disk import onto_disk
from lightrl.workers.calls import describe

T = TypeVar("T")


class TrainerWeights:
    """The weights of a policy as they are now, by the methods of `lightrl.PolicyWeights`; what is tied comes once."""

    def __init__(self, policy: Policy, access: WeightAccess | None = None, compute_dtype: torch.dtype | None = None) -> None:
        """
        Args:
            access: the strategy's; None: this is the only rank.
            compute_dtype: that the trainer's layers compute in; None: that of the weights.
        """
        self.policy, self._access = policy, access or WeightAccess()
        self.compute_dtype: torch.dtype = compute_dtype or policy.model.dtype

    def whole(self) -> AbstractContextManager[None]:
        return self._access.gathered_weights()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self.policy.hugging_face_tensors(self._access):
            yield name, tensor.detach()

    def own_tensors(self, trained: bool) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in self.policy.own_tensors():
            if tensor.requires_grad or not trained or not isinstance(tensor, nn.Parameter):
                yield name, self._access.whole(tensor).detach()

    def save(self, folder: Path) -> None:
        # what one rank keeps must not change with the gathered tensors that come next
        kept = {name: tensor.to("cpu", copy=True) for name, tensor in self.tensors() if self._access.rank == 0}
        self.on_first_rank(lambda: self._write(folder, kept))

    def save_adapters(self, folder: Path) -> None:
        policy = self.policy
        if not isinstance(policy, AdaptedPolicy):
            raise ValueError(
                "the policy has no adapters that could be written alone: train one such as LoraPolicy, or have all weights saved"
            )
        kept = policy.adapter_tensors(self._access)
        self.on_first_rank(lambda: policy.save_adapters(folder, kept))

    def on_first_rank(self, action: Callable[[], T]) -> T:
        outcome = list[T]()
        failure: Exception | None = None
        if self._access.rank == 0:
            try:
                outcome.append(action())
            except Exception as error:
                failure = error
        given, complaint = self._access.gather((outcome, None if failure is None else describe(failure)))[0]
        if failure is not None:
            raise failure
        if complaint is not None:
            raise RuntimeError(f"the first rank could not go on: {complaint}")
        taken: T = given[0]
        return taken

    @torch.no_grad()
    def logprobs(self, context: Sequence[int], tokens: Sequence[int], temperature: float) -> list[float]:
        ids = torch.tensor([[*context, *tokens]], device=next(self.policy.parameters()).device)
        mask = torch.arange(ids.shape[1], device=ids.device)[None] >= len(context)
        found: list[float] = self.policy(ids, mask, temperature).logprobs[mask].tolist()
        return found

    def _write(self, folder: Path, tensors: dict[str, Tensor]) -> None:
        # a bar for every update would bury the run's own
        with _no_progress_bar(), onto_disk(folder, sum(tensor.nbytes for tensor in tensors.values())):
            write_model(self.policy.model, self.policy.tokenizer, folder, tensors)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
