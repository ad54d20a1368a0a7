"""The ranges of the Trainer's numbers, which Lightning does not state: outside them it hangs, fails late or trains nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from lightrl.ranges import Count, Natural, Seed, Share

Batches = Count | Annotated[float, Gt(0), Le(1)] | None
HeldOutBatches = Natural | Share | None
End = Literal[-1] | Count
"""-1: never."""

Precision = Literal["32-true", "bf16-mixed", "bf16-true", "64-true", "32", "bf16", "64", "transformer-engine", 32, 64] | None
Float16 = Literal["16-mixed", "16-true", "16", "fp16", "float16", "transformer-engine-float16", 16]
"""What a person may type for it; it is refused with the reason."""

RANGES: dict[str, object] = {
    "precision": Precision | Float16,
    "devices": Literal[-1] | Annotated[int, Ge(1), Le(1024)] | str | list[int],
    "num_nodes": Annotated[int, Ge(1), Le(10_000)],
    "max_epochs": End | None,
    "min_epochs": Natural | None,
    "max_steps": End,
    "min_steps": Natural | None,
    "limit_train_batches": Batches,
    "limit_val_batches": HeldOutBatches,
    "limit_test_batches": HeldOutBatches,
    "limit_predict_batches": HeldOutBatches,
    "overfit_batches": Natural | Share,
    "val_check_interval": Count | Annotated[float, Gt(0), Le(1)] | str | timedelta | dict[str, Any] | None,
    "check_val_every_n_epoch": Count | None,
    "num_sanity_val_steps": Literal[-1] | Natural | None,
    "log_every_n_steps": Natural | None,
    "fast_dev_run": bool | Natural,
    "reload_dataloaders_every_n_epochs": Natural,
}
"""By argument, the type with its range in place of Lightning's."""
OF_THE_VERB: dict[str, object] = {
    "seed_everything": bool | Seed,
    "float32_matmul_precision": Literal["highest", "high", "medium"],
    "ckpt_path": str | None,
}
"""The same for the keys beside `trainer`."""
