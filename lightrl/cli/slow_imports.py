"""The libraries that take seconds to import are named before they are, so that no command begins in silence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TextIO

SLOW = ("torch", "lightning", "transformers", "torch._dynamo", "lightning.pytorch")
"""Modules; most take more than a second, without those that are named too."""


class _Teller(MetaPathFinder):
    """Finds nothing, and is asked before everything that does."""

    def __init__(self, stream: TextIO) -> None:
        """
        Args:
            stream: told what is loaded; a listing keeps what is written to any other one.
        """
        self._stream = stream
        self._untold = {name for name in SLOW if name not in sys.modules}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Tell of a slow module, once; called by Python when it imports one for the first time."""
        if fullname in self._untold:
            self._untold.remove(fullname)
            self._stream.write(f"loading {fullname} ...\n")
            self._stream.flush()
        return None


@contextmanager
def naming_slow_imports() -> Iterator[None]:
    """Within, a line on stderr says which slow library is being imported; one process of a run speaks for all."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        yield
        return
    teller = _Teller(sys.stderr)
    sys.meta_path.insert(0, teller)
    try:
        yield
    finally:
        sys.meta_path.remove(teller)
