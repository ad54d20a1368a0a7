"""Recorders that record nothing: they call the function again, and one of them checks that a device could have recorded it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class CallsAgain:
    """Calls the function at each replay; its result stands in one place, as that of a graph does."""

    def __init__(self) -> None:
        self.recordings = 0

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recordings += 1
        out = run()
        return lambda: out.copy_(run())


class Checks(CallsAgain):
    """Expects of each replay the operations of the recording, on tensors at the same addresses and with the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.replays = 0

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        recorded: list[Any] = []
        # as before a capture
        run()

        def checked() -> Tensor:
            with _Operations() as seen:
                result = run()
            if not recorded:
                recorded.extend(seen.trace)
            assert seen.trace == recorded
            self.replays += 1
            return result

        return super().__call__(checked)


class DropsTheFunction(CallsAgain):
    """Keeps nothing that the function reads, as a graph does; its replays give the first result."""

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recordings += 1
        out = run()
        return lambda: out


class Refuses(CallsAgain):
    """Records some functions, and then fails."""

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.after = after

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        if self.recordings == self.after:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")
        return super().__call__(run)


class _Operations(TorchDispatchMode):
    """Notes each operation with all its arguments: of a tensor from outside its address, of one made within its form."""

    def __init__(self) -> None:
        super().__init__()
        self.trace: list[tuple[str, list[Any]]] = []
        self._made: dict[int, Tensor] = {}
        self._outside: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.trace.append((str(func), [self._noted(leaf) for leaf in tree_leaves((args, kwargs))]))
        out = func(*args, **kwargs or {})
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and (place := leaf.untyped_storage()._cdata) not in self._outside:
                # kept, so that nothing else gets its place
                self._made.setdefault(place, leaf)
        return out

    def _noted(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return repr(leaf)
        if leaf.is_mkldnn:
            # it has no address, and is never made within
            return id(leaf)
        form = (leaf.shape, leaf.stride(), leaf.dtype)
        if (place := leaf.untyped_storage()._cdata) in self._made:
            return form
        self._outside.add(place)
        return leaf.data_ptr(), form
