"""Two settings decide the precision, `trainer.precision` and the policy's `dtype`; these pairs are allowed:

| trainer.precision | model.policy.dtype | weights that the optimizer moves | arithmetic of the layers |
|---|---|---|---|
| `32-true` | any | float32, or wider where the policy's dtype is | in the policy's dtype |
| `bf16-mixed` | `float32` | float32 | bfloat16 |
| `bf16-true` | `bfloat16` | float32 copies of them | bfloat16 |
| `64-true` | `float64` | float64 | float64 |

Under DeepSpeed `bf16-mixed` keeps float32 weights in the optimizer, and bfloat16 ones in the model. Adapters are float32 on a bfloat16
base as well, but for DeepSpeed, which has float32 copies of them. Gradients of micro-batches add up in float32; those of DeepSpeed, and
of FSDP2 at the end of a step, are rounded to the format of the weights.

Whatever the layers compute in, these are float32 (or wider): log-probs, entropies, values, ratios, advantages, losses, KL and every
statistic. A head adds up its products of bfloat16 numbers in float32, and the softmax over the vocabulary is taken of these sums.

The key `float32_matmul_precision`, beside `trainer`, says how matrices in float32 are multiplied: `high` on a GPU with 10 bits of their
numbers (TF32), several times faster, and the checks of ratios allow for it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from lightning.pytorch.plugins import DeepSpeedPrecision, Precision
from lightning.pytorch.strategies import Strategy

WANTS = {"bf16-true": torch.bfloat16, "bf16-mixed": torch.float32, "64-true": torch.float64}
"""The dtype that the policy's weights must have under a precision of the trainer."""
FLOAT16 = "policy gradients are too small for float16, and its loss scale would change clipped norms"
"""Why there is none."""
PRECISIONS = "--trainer.precision bf16-mixed, or bf16-true, or 32-true"
"""What to type instead."""


def check_precision(precision: str, dtype: torch.dtype) -> None:
    """Refuse settings that contradict each other, and those under which gradients would vanish."""
    if precision != "32-true" and precision not in WANTS:
        raise ValueError(f"trainer.precision is {precision!r}: {FLOAT16}. Type: {PRECISIONS}")
    wanted = WANTS.get(precision, dtype)
    if dtype != wanted:
        fitting = {torch.bfloat16: "bf16-true", torch.float32: "bf16-mixed, or 32-true"}.get(dtype, "32-true")
        raise ValueError(
            f"trainer.precision is {precision!r}, for weights in {_name(wanted)}, and model.policy.dtype is {_name(dtype)}: one of them "
            f"would be ignored.\nType: --model.policy.dtype {_name(wanted)}, or --trainer.precision {fitting}"
        )


class StatedFormats(Precision):
    """Lightning's `bf16-true` without its default: whatever is made is float32, unless its maker says otherwise.

    Lightning makes bfloat16 the default of torch during each step, in which rewards and statistics would be rounded, and rounds every
    module that it is given, adapters included. Here the policy's source says what its weights are.
    """

    precision = "bf16-true"


class StatedFormatsInDeepSpeed(DeepSpeedPrecision):
    """The same for DeepSpeed, which has bfloat16 as the default while modules are built, and rounds them itself."""

    def __init__(self) -> None:
        super().__init__("bf16-true")

    def tensor_init_context(self) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()


def keep_default_format(strategy: Strategy) -> None:
    """Have a strategy leave torch's default format alone."""
    plugin = strategy.precision_plugin
    if plugin.precision == "bf16-true":
        strategy.precision_plugin = StatedFormatsInDeepSpeed() if isinstance(plugin, DeepSpeedPrecision) else StatedFormats()


def compute_dtype(weights: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype that the layers compute in here: that of the weights, or that of a surrounding autocast."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else weights


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
