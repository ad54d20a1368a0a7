"""One class for each check of the contract of callbacks, which breaks that check."""

from __future__ import annotations

from typing import Any

from broken_contracts.wrong import wrong
from lightning.pytorch import Callback

KIND = "callback"


def raises(self: Any, *given: Any) -> None:
    raise ValueError("it cannot")


BROKEN = {
    "the class and each of its arguments is documented and typed": type("Silent", (Callback,), {}),
    "a run with it goes to its end": wrong(Callback, on_train_batch_end=raises),
    "it is saved under a name of its own": wrong(Callback, state_key="state"),
}
