"""Memory of a rank of a run, by the formulas of `rank_memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.parts.reference import Reference
from lightrl.strategies.disk import in_words
from lightrl.strategies.rank_memory import ModelSize, RankMemory, TrainerPrecision, rank_memory
from lightrl.training.steps.fitting_passes import LEAST
from lightrl.versions import recomputes_activations

if TYPE_CHECKING:
    from lightrl.training.policy_module import PolicyModule


def formula_precision(module: PolicyModule) -> TrainerPrecision:
    """The precision whose numbers the layers of a policy compute, whichever of two settings says so."""
    if str(module.trainer.precision) == "bf16-mixed":
        return "bf16-mixed"
    by_size: dict[int, TrainerPrecision] = {8: "64-true", 4: "32-true"}
    return by_size.get(module.policy.model.dtype.itemsize, "bf16-true")


def run_memory(module: PolicyModule, tokens: int = 0) -> RankMemory:
    """The memory of this rank, keys and values left out."""
    model: Any = module.policy.model
    critic = getattr(module, "critic", None)
    size = ModelSize.of(model)
    own_trunk = critic is not None and sum(p.numel() for p in critic.parameters()) > size.parameters / 2
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    memory = rank_memory(
        size,
        module.learner.adapter.arrangement,
        module.learner.adapter.world_size,
        formula_precision(module),
        learning=None if learning == size.parameters else learning,
        critic=own_trunk,
        engine_inside=module.collector.engine.in_process,
        rows=0,
        micro_batch_tokens=tokens,
        gradient_checkpointing=recomputes_activations(model),
    )
    algorithm = getattr(module, "algorithm", None)
    references = [part for part in vars(module).values() if isinstance(part, Reference)]
    references += [] if algorithm is None else algorithm.references.values()
    return replace(memory, reference=sum(reference.kept_bytes for reference in references))


HINTS = {
    "weights": "--model.policy LoraPolicy on a base in bfloat16, or --trainer.strategy fsdp2 on several devices",
    "gradients": "--model.policy LoraPolicy, or --trainer.strategy deepspeed_stage_2_offload",
    "optimizer": "--model.policy LoraPolicy, or --trainer.strategy deepspeed_stage_2_offload",
    "master": "--trainer.strategy deepspeed_stage_2_offload",
    "reference": "offload: cpu of the reference, or --model.policy LoraPolicy, whose base is the reference",
    "critic": "--model.algorithm.critic ValueHead",
    "activations": "--model.policy.gradient_checkpointing true, or a lower model.micro_batch_tokens",
}
"""What takes less of each part of `RankMemory`."""


def memory_report(module: PolicyModule) -> str:
    """Consumers of the memory of a rank, the most first, each with what to type for less of it."""
    tokens = module.learner.budget.tokens or LEAST
    memory = run_memory(module, tokens)
    sizes = {part: getattr(memory, part) for part in HINTS}
    title = {"activations": f"activations of {tokens:,} tokens"}
    largest = sorted((part for part, size in sizes.items() if size), key=lambda part: -sizes[part])
    lines = [f"  {title.get(part, part)}: {in_words(int(sizes[part]))}; for less: {HINTS[part]}" for part in largest]
    if module.collector.engine.in_process:
        engine = module.collector.engine
        positions, rows = module.policy.max_positions or engine.sampling.max_new_tokens, getattr(engine, "max_rows", None)
        one = rank_memory(ModelSize.of(module.policy.model), "auto", precision=formula_precision(module), rows=1, positions=positions)
        said = f"{rows} rows" if rows else "all rows of a rollout"
        lines.append(
            f"  keys and values of a row of {positions:,} positions: {in_words(int(one.keys_and_values))}, while {said} are generated at a "
            "time; for less: --model.engine.max_rows VALUE, or a lower model.engine.max_new_tokens"
        )
    return "\n".join(["The memory of this rank did not suffice. By the formulas of lightrl.rank_memory it holds:", *lines])


class CloseAfterFailure(Callback):
    """Closes the module when a run fails or is interrupted, and says of a lack of memory what takes it."""

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """End processes, servers and threads, for which Lightning calls `teardown` only when a run ends well; the error is raised again."""
        from lightrl.training.policy_module import PolicyModule

        pl_module.teardown(trainer.state.fn or "fit")
        if isinstance(exception, torch.OutOfMemoryError) and isinstance(pl_module, PolicyModule) and hasattr(pl_module, "policy"):
            exception.add_note(memory_report(pl_module))
