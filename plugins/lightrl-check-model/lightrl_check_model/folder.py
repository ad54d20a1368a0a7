"""Checks of what is written: a model must come back from its folder as it was, adapters included."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from lightrl import LoadedPolicy, LoraPolicy, Policy, PretrainedPolicy
from lightrl_check_model.check import Check
from lightrl_check_model.rows import Rows, alone, apart, copied, in_lightrl


@torch.no_grad()
def folder_checks(policy: Policy, rows: Rows) -> Iterator[Check]:
    """Compare a saved and loaded model, and merged adapters, with the model itself.

    Args:
        policy: in float32 and evaluation mode.
        rows: token ids of some rows.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    ours = in_lightrl(policy, rows)
    with tempfile.TemporaryDirectory() as folder:
        policy.save(folder)
        loaded = PretrainedPolicy(folder).build().eval()
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        yield Check("save and load", ours=apart(in_lightrl(loaded, rows), ours), says=f"{size / 1e6:,.0f} MB", limit=1e-5)
        single = [alone(policy.model, row) for row in rows]
        yield Check("load by transformers", ours=apart([alone(theirs, row) for row in rows], single), says="what was written", limit=1e-5)
    adapted = LoraPolicy(LoadedPolicy(copied(policy.model, torch.float32), policy.tokenizer), r=4).build().eval()
    second = {name: parameter for name, parameter in adapted.model.named_parameters() if "lora_B" in name}
    with torch.enable_grad():
        gradients = torch.autograd.grad(torch.cat(in_lightrl(adapted, rows)).sum(), [*second.values()], allow_unused=True)
    # what has no gradient stays 0 in training
    learning = [one for one, gradient in zip(second.values(), gradients, strict=True) if gradient is not None]
    for parameter in learning:
        nn.init.normal_(parameter, std=0.02)
    given = in_lightrl(adapted, rows)
    unread = f"; {len(second) - len(learning)} of {len(second)} have no part in the forward pass" if len(learning) < len(second) else ""
    says = f"adapters that move log-probs by {apart(given, ours):.2g}, added to the weights{unread}"
    yield Check("adapters merged", ours=apart(in_lightrl(adapted.merged().eval(), rows), given), says=says)
