"""One optimizer that moves hidden matrices by Muon and everything else by AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from lightrl.ranges import LearningRate, NonNegative, Positive, Share

NOT_HIDDEN = ("embed", "wte", "wpe", "head", "score")
"""What the names of embeddings and output layers have in them, in the models of transformers."""

OF_GROUPS = ("lr", "weight_decay", "momentum")
"""Settings that groups may have of their own and schedules change."""


class MuonAdamW(torch.optim.Optimizer):
    """Muon for hidden matrices, and AdamW for embeddings, output layers, norms and biases.

    Muon: B = momentum B + (1 - momentum) g, and W = W (1 - lr weight_decay) - lr 0.2 sqrt(max(rows, columns)) O, where O is the nearest
    orthogonal matrix to (1 - momentum) g + momentum B, found by Newton-Schulz iterations in bfloat16. The factor 0.2 sqrt(max(rows,
    columns)) gives each step the root mean square 0.2 lr, as steps of AdamW have in a long run. The first steps of AdamW are of size lr, so
    that a run of few steps needs some five times its rate.

    The steps are those of `torch.optim.Muon`, which came with torch 2.9, and of `torch.optim.AdamW`. Each hidden matrix has one number of
    memory per weight, where AdamW has two. ZeRO, which cuts weights into flat pieces, is refused.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the factor: Liu et al. 2025, arXiv:2502.16982, section 2.2.
    """

    takes_matrices = True
    """It needs each matrix as a whole, or cut into rows."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: LearningRate = 1e-6,
        weight_decay: NonNegative = 0.0,
        momentum: Share = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: Positive = 1e-8,
        adamw: Sequence[str] = NOT_HIDDEN,
    ) -> None:
        """
        Args:
            params: parameters or groups of them; where a group has `param_names`, matrices are chosen by name.
            lr: the rate of both.
            weight_decay: likewise.
            momentum: of Muon.
            betas: of AdamW.
            eps: of AdamW.
            adamw: a matrix with one of these in its name is moved by AdamW.

        Raises:
            RuntimeError: torch is older than 2.9.
        """
        if not hasattr(torch.optim, "Muon"):
            raise RuntimeError(f"Muon came with torch 2.9, and this is torch {torch.__version__}: install a newer one, or take AdamW")
        self.adamw = tuple(adamw)
        # with the momentum, so that a state of AdamW is refused on resume
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        unused = torch.zeros(1, 1)
        self._muon = torch.optim.Muon([unused], adjust_lr_fn="match_rms_adamw")
        self._adamw = torch.optim.AdamW([unused], betas=betas, eps=eps)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            # in their order, in which the ranks of FSDP2 gather them
            matrices = list(self.hidden(group))
            others = [p for p in group["params"] if p not in set(matrices)]
            for inner, parameters in ((self._muon, matrices), (self._adamw, others)):
                # both remember in this optimizer's own state, which is what a checkpoint has
                inner.state = self.state
                inner.param_groups = [{**inner.defaults, **{name: group[name] for name in OF_GROUPS}, "params": parameters}]
                inner.step()
        return loss

    def hidden(self, group: dict[str, Any]) -> Iterator[Tensor]:
        """The parameters of a group that Muon moves: matrices of more than one row and column whose name has nothing of `adamw`."""
        names = group.get("param_names") or [""] * len(group["params"])
        for name, parameter in zip(names, group["params"], strict=True):
            if parameter.ndim == 2 and min(parameter.shape) > 1 and not any(word in name for word in self.adamw):
                yield parameter
