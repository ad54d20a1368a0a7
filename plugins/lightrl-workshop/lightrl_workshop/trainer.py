"""A Lightning Trainer that says nothing and writes nothing, and one optimizer step of it, whose gradient a test can compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lightrl.types import Rollout
from lightrl_workshop.rollouts import ReplayedRollouts
from lightrl_workshop.toy import CodePoints

if TYPE_CHECKING:
    from lightning.pytorch import Callback, Trainer

    from lightrl.algorithms.algorithm import Algorithm
    from lightrl.parts.environment import Environment
    from lightrl.policy.tiny import TinyPolicy


def quiet_trainer(*, callbacks: Sequence[Callback] = (), **settings: Any) -> Trainer:
    """A Trainer on one CPU without progress bar, summary of the model, logger and checkpoints.

    Example: `quiet_trainer(max_epochs=2).fit(module, datamodule=PromptData(train=DigitSorting()))` makes two rollouts.

    Args:
        callbacks: of the run; a `Checkpoint` or a `ProgressBar` among them does its work.
        settings: further arguments of `lightning.pytorch.Trainer`, also in place of those that this function sets.
    """
    from lightning.pytorch import Trainer
    from lightning.pytorch.callbacks import Checkpoint, ProgressBar

    from lightrl.training.policy_module import NoDefaultCallbacks

    quiet = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": any(isinstance(callback, Checkpoint) for callback in callbacks),
        "enable_progress_bar": any(isinstance(callback, ProgressBar) for callback in callbacks),
        "enable_model_summary": False,
    }
    return Trainer(callbacks=[NoDefaultCallbacks(), *callbacks], **{**quiet, **settings})


def gradient_of_step(
    algorithm: Algorithm,
    rollout: Rollout | None,
    policy: TinyPolicy,
    budget: int | None = None,
    ranks: int = 1,
    environment: Environment | None = None,
) -> Tensor:
    """The gradient of the one step of a run on prepared rows: a float64 vector of all parameters, tied ones as often as they have names.

    The step is plain SGD's with a learning rate of 1, and the gradient what it takes from the parameters. `CodePoints` is the reward.

    Args:
        algorithm: makes one step per rollout.
        rollout: the rows of all ranks; None: the run samples its own, for four prompts.
        policy: whose parameters follow from its seed.
        budget: `micro_batch_tokens` of the run; None: its default.
        ranks: that the groups are dealt out to. With more than one, call this from a script, which DDP starts again for each.
        environment: answers the policy where the run samples its own rows; None: a single turn.

    Raises:
        ValueError: the algorithm made another number of steps.
    """
    from lightrl.data.prompt_data import PromptData
    from lightrl.data.tasks import DigitSorting
    from lightrl.parts.environment import SingleTurn
    from lightrl.rollout.decode.transformers_engine import TransformersEngine
    from lightrl.training.online.policy_optimization import PolicyOptimization

    module = PolicyOptimization(
        policy=policy,
        algorithm=algorithm,
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        environment=environment or SingleTurn(),
        prompts_per_rollout=4 if rollout is None else len(torch.unique(rollout.group)),
        micro_batch_tokens=budget,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
        max_grad_norm=None,
    )
    callbacks = [] if rollout is None else [_deal(rollout)]
    trainer = quiet_trainer(max_epochs=1, devices=ranks, strategy="ddp" if ranks > 1 else "auto", callbacks=callbacks)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    if trainer.global_step != 1:
        steps = f"{type(algorithm).__name__} made {trainer.global_step}"
        raise ValueError(f"gradient_of_step wants an algorithm with one step per rollout; {steps}")
    before = policy.build().state_dict()
    return torch.cat([(before[name] - now).flatten().double() for name, now in module.policy.state_dict().items()])


def assert_same_gradient(one: Tensor, other: Tensor, tolerance: float = 1e-10) -> None:
    """Raise an AssertionError if two gradients differ by more than rounding, as a share of the largest entry, or none is above 1e-4."""
    largest = float(one.abs().max())
    if not largest > 1e-4:
        raise AssertionError(f"a gradient of nothing proves nothing: its largest entry is {largest:.1e}")
    difference = float((one - other).abs().max()) / largest
    if not difference <= tolerance:
        raise AssertionError(f"the gradients differ by {difference:.1e} of the largest entry, and at most {tolerance:.1e} is rounding")


def _deal(rollout: Rollout) -> Any:
    """A callback that lets each rank replay its groups, numbered from 0."""
    from lightning.pytorch import Callback

    class Deal(Callback):
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            mine = rollout.select((rollout.group % trainer.world_size == trainer.global_rank).nonzero()[:, 0])
            mine.group = torch.unique(mine.group, return_inverse=True)[1]
            pl_module.collector.rollouts = ReplayedRollouts(mine)

    return Deal()
