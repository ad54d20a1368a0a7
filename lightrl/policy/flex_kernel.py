"""Flex attention of packed rows: one compiled function per trunk, tried before it is used."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from lightrl.ops.packing import PackedRows, pack
from lightrl.ops.tree_attention import tree_attention, tree_blocks

BLOCK = 128
"""Tokens up to which there is one block, so that a kernel has none to skip."""
TOLERANCE = 0.03
"""Largest difference from plain attention, as a share of its largest number, that half precision explains."""
VERSIONS = 32
"""Of the function of a trunk: with gradients and without, of each kind of window, of sizes that a kernel treats differently."""
Form = tuple[torch.device, torch.dtype, tuple[int, ...], bool, bool]
"""What a version of the kernel is compiled for."""


class FlexKernel:
    """The attention of one trunk on a device with a compiler.

    Dynamo counts the versions of a function, and beyond a limit runs it without a kernel, with tokens x tokens scores in memory. So each
    trunk has a function of its own, none of whose versions is for certain sizes, and which refuses to go on beyond the limit.
    """

    def __init__(self) -> None:
        self._works: dict[Form, bool] = {}

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scale: float | None, window: int | None) -> Tensor:
        """As `tree_attention`, which is taken where the compiled function cannot be, after a warning that says why."""
        form = query.device, query.dtype, (*_widths(query), *_widths(key)), window is None, torch.is_grad_enabled()
        if len(rows) > BLOCK and form not in self._works:
            # when the trunk first comes to a device
            self._take(form, self._refusal(query, key, scale, window))
        if len(rows) > BLOCK and self._works[form]:
            try:
                return self._compiled(query, key, value, rows, scale, window)
            except torch._dynamo.exc.FailOnRecompileLimitHit:
                self._take(form, f"it was compiled {VERSIONS} times, and would have to be once more")
        return tree_attention(query, key, value, rows, scale, window)

    @cached_property
    def _attend(self) -> Callable[..., Tensor]:
        # versions are counted by code object
        own = types.FunctionType(_attend.__code__.replace(), _attend.__globals__)
        return torch.compile(own, dynamic=True, fullgraph=True)

    def _compiled(self, query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scale: float | None, window: int | None) -> Tensor:
        blocks = rows.kept("flex", window, _sized_blocks)
        # the kernels want a power of two of heads where they share keys
        shared = query.shape[1] & (query.shape[1] - 1) == 0
        times = 1 if shared else query.shape[1] // key.shape[1]
        key, value = (states if times == 1 else states.repeat_interleave(times, dim=1) for states in (key, value))
        with torch._dynamo.config.patch(recompile_limit=VERSIONS):
            found = self._attend(query, key, value, blocks, scale, query.shape[1] != key.shape[1])
        return found.transpose(1, 2).contiguous()

    def _take(self, form: Form, why: str | None) -> None:
        """Remember whether a form can be used, and warn of one that cannot."""
        self._works[form] = why is None
        if why is not None:
            warnings.warn(
                f"packed rows run through plain attention on {form[0]}, which is slower and takes more memory: flex attention does not "
                f"work there ({why}). It needs Triton, a C compiler and Python's headers",
                stacklevel=2,
            )

    def _refusal(self, query: Tensor, key: Tensor, scale: float | None, window: int | None) -> str | None:
        """Why the compiled function cannot be used for such numbers; None: it can."""
        try:
            apart = self._apart(query, key, scale, window)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            # compilers raise exceptions of no particular class
            return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        return None if apart <= TOLERANCE else f"its results differ from those of plain attention by {apart:.2g}"

    def _apart(self, query: Tensor, key: Tensor, scale: float | None, window: int | None) -> float:
        """The largest difference from plain attention on rows of its own, of results and of gradients."""
        rows = _trial_rows().to(query.device)
        random = torch.Generator().manual_seed(0)
        shapes = [(1, len(rows), *_widths(states)) for states in (query, key, key)]
        drawn = [torch.randn(shape, generator=random, dtype=torch.float32, device="cpu") for shape in shapes]
        learns = torch.is_grad_enabled()
        found: list[list[Tensor]] = []
        for attention in (self._compiled, tree_attention):
            given = [states.to(query.device, query.dtype).flatten(2).requires_grad_(learns) for states in drawn]
            # a layer that is computed again in the backward pass counts what is saved in it
            with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor) if learns else nullcontext():
                # laid out as in a layer: values are a view of what their weights give, the others have been rotated
                q, k, v = (states.view(shape).transpose(1, 2) for states, shape in zip(given, shapes, strict=True))
                out = attention(q * 1, k * 1, v, rows, scale, window)
                gradients = torch.autograd.grad(out.float().square().sum(), given) if learns else ()
            found.append([out.detach(), *gradients])
        # what is not a number stays one in this maximum
        return float(torch.stack([(ours - plain).abs().max() / plain.abs().max() for ours, plain in zip(*found, strict=True)]).max())


_KERNELS: WeakKeyDictionary[nn.Module, FlexKernel] = WeakKeyDictionary()


def flex_kernel(trunk: nn.Module) -> FlexKernel:
    """The kernel of a trunk, the same at each call."""
    if trunk not in _KERNELS:
        _KERNELS[trunk] = FlexKernel()
    return _KERNELS[trunk]


def _attend(query: Tensor, key: Tensor, value: Tensor, blocks: BlockMask, scale: float | None, shared: bool) -> Tensor:
    found: Tensor = flex_attention(query, key, value, block_mask=blocks, scale=scale, enable_gqa=shared)  # type: ignore[assignment]
    return found


def _sized_blocks(rows: PackedRows, window: int | None) -> BlockMask:
    """`tree_blocks` of which no size is compiled in."""
    blocks = tree_blocks(rows, window, BLOCK)
    for numbers in vars(blocks).values():
        if isinstance(numbers, Tensor):
            torch._dynamo.maybe_mark_dynamic(numbers, list(range(2, numbers.dim())))
    return blocks


def _widths(states: Tensor) -> tuple[int, int]:
    """Heads and width of a head."""
    return states.shape[1], states.shape[3]


def _trial_rows() -> PackedRows:
    """Rows of several blocks, some of which share beginnings."""
    ids = torch.arange(3 * 300, device="cpu").view(3, 300)
    ids[1, :150] = ids[0, :150]
    ids[2, :200] = ids[1, :200]
    return pack(ids, [300, 280, 250])
