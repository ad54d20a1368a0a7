"""Keeps warnings from the terminal that no user of lightrl can act on."""

from __future__ import annotations

import logging
import warnings


class WithoutTips(logging.Filter):
    """Drops Lightning's recommendations of other products."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a record that is one."""
        return "Tip: For seamless" not in record.getMessage()


def quiet_lightning() -> None:
    """Filter the logs of Lightning and DeepSpeed; their warnings about the run itself stay."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.rank_zero"):
        logging.getLogger(name).addFilter(WithoutTips())
    # DeepSpeed says when its checkpoint is exported that it has found no GPU
    logging.getLogger("DeepSpeed").addFilter(lambda record: "Setting accelerator to CPU" not in record.getMessage())
    for message in (
        # raised by Lightning's own use of torch, and by DeepSpeed's, at every call
        r".*isinstance\(treespec, LeafSpec\).*",
        r".*`torch\.distributed\.(all_gather_into_tensor|reduce_scatter_tensor)` is deprecated.*",
        # lightrl has already reduced its numbers over the ranks, each in its own way
        r".*It is recommended to use `self\.log\(.*sync_dist=True.*",
        # said at every validation: val/avg@8 is called val/avg8 there
        r".*MLFlow only allows .* special characters in metric name.*",
    ):
        warnings.filterwarnings("ignore", message=message)
