"""The policy's weights as engines get them, whoever shards them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn

from lightrl.policy.policy import Policy


class TrainerWeights:
    """The weights of a policy as they are now; see `lightrl.PolicyWeights`."""

    def __init__(
        self,
        policy: Policy,
        gathered: Callable[[], AbstractContextManager[None]] = nullcontext,
        whole: Callable[[Tensor], Tensor] = lambda tensor: tensor,
    ) -> None:
        """
        Args:
            policy: the trainer's own.
            gathered: within it, every parameter is whole on this rank; by default they always are.
            whole: gives one parameter whole, with every rank calling it; by default they are.
        """
        self.policy, self._gathered, self._whole = policy, gathered, whole

    def whole(self) -> AbstractContextManager[None]:
        """Within, the policy's own modules have gathered weights on this rank."""
        return self._gathered()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its Hugging Face name, one at a time; weights that are tied come once.

        Adapters are added to the weights that they adapt, for which all weights are gathered at once.
        """
        if not self.policy.adapted:
            for name, tensor in self.policy.hugging_face_tensors():
                yield name, self._whole(tensor).detach()
            return
        with self._gathered():
            for name, tensor in self.policy.hugging_face_tensors():
                yield name, tensor.detach()

    def own_tensors(self, trained: bool) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its name in the policy's model, one at a time; weights that are tied come once.

        Args:
            trained: only those that learn, and buffers.
        """
        for name, tensor in self.policy.own_tensors():
            if tensor.requires_grad or not trained or not isinstance(tensor, nn.Parameter):
                yield name, self._whole(tensor).detach()
