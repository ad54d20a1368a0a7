"""Python's garbage collector passes over what stands for a whole run: modules, config, policy, data."""

from __future__ import annotations

import gc

from lightning.pytorch import Callback


class FreezeGarbage(Callback):
    """Sets what is there after the first step apart from later collections.

    A full collection looks at every object: a million of imported modules alone, a third of a second in the middle of some step. What a
    run makes later is collected as ever, and when it ends nothing is set apart any more.
    """

    def __init__(self) -> None:
        self._apart = False

    def on_train_batch_end(self, *arguments: object) -> None:
        """After the first step: collect once, and set apart what is left, unless somebody else has done so."""
        if not self._apart and gc.get_freeze_count() == 0:
            gc.collect()
            gc.freeze()
            self._apart = True

    def teardown(self, *arguments: object, **stage: object) -> None:
        """Collect everything again."""
        if self._apart:
            gc.unfreeze()
            self._apart = False

    def on_exception(self, *arguments: object) -> None:
        """As at the end of a run."""
        self.teardown()
