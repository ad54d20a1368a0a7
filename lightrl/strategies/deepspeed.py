"""DeepSpeed ZeRO 1, 2 and 3 in manual optimisation, on CUDA and on CPU.

Lightning sends the whole training step through the engine once; ZeRO-3 then keeps the last micro-batch's gradient alone, without
an error. Here every micro-batch goes through the engine, and the engine knows which one is the last.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy

from lightrl.strategies.adapter import module_of
from lightrl.strategies.atomic import beside, partial, publish, remove
from lightrl.strategies.checkpoint_files import (
    CheckpointError,
    Written,
    agreed,
    check_together,
    only_weights,
    states_in,
    unsafe_names,
    write_list,
)
from lightrl.strategies.checkpoint_io import WholeFileIO, refuse_execution, refuse_unsafe
from lightrl.strategies.checkpoint_weights import refuse_shapes
from lightrl.strategies.disk import onto_disk
from lightrl.workers.waiting import waiting

log = logging.getLogger(__name__)
ABANDONED_S = 600
"""Seconds after which the lock of a build is removed, if no process of this machine has it open."""


class DeepSpeedNeedsError(ValueError):
    """Something that DeepSpeed needs is not there; what, and what to type, in two lines."""


def refuse_without_deepspeed(what: str) -> None:
    """Raise DeepSpeedNeedsError if DeepSpeed, which `what` asks for with its key, is not installed; it is not imported."""
    if find_spec("deepspeed") is None:
        raise DeepSpeedNeedsError(
            f"{what} needs DeepSpeed, which is not installed here; only on Linux it comes with lightrl-core.\n"
            "Type: pip install deepspeed; or take another strategy, for example --trainer.strategy ddp or fsdp2"
        )


@contextmanager
def building_operators() -> Iterator[None]:
    """Within, DeepSpeed may build operators; if it fails for want of a compiler, the error says so in place of torch's log of the build.

    Raises:
        DeepSpeedNeedsError: it failed, and there is no compiler.
    """
    from torch.utils.cpp_extension import get_default_build_root  # as DeepSpeed does; it imports setuptools

    remove_abandoned_locks(Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root()))
    try:
        with waiting("starting DeepSpeed, which compiles operators the first time, for some minutes"):
            yield
    except RuntimeError as error:
        # the name by which torch calls it
        compiler = os.environ.get("CXX", "c++")
        if shutil.which(compiler) is not None:
            raise
        raise DeepSpeedNeedsError(
            f"trainer.strategy: on CPUs DeepSpeed builds an operator with a C++ compiler, and there is no {compiler!r} on the path.\n"
            "Type: apt-get install g++ (or CXX=/path/to/compiler before the command); or --trainer.strategy ddp or fsdp2, which need none"
        ) from error


def remove_abandoned_locks(root: Path) -> None:
    """Remove the locks of builds that were killed, for which torch would wait for ever. A build that goes on has its lock open.

    Args:
        root: of torch's folders of extensions, which several machines may share.
    """
    import psutil  # as DeepSpeed does

    if locks := [lock for depth in ("*", "*/*") for lock in root.glob(f"{depth}/lock")]:
        processes = psutil.process_iter(["open_files"])
        opened = {os.path.realpath(file.path) for process in processes for file in process.info["open_files"] or ()}
        for lock in (lock for lock in locks if os.path.realpath(lock) not in opened):
            with suppress(FileNotFoundError):  # a build elsewhere may be over by now
                if time.time() - lock.stat().st_mtime > ABANDONED_S:
                    lock.unlink()
                    continue
                log.warning("%s is the lock of a build on another machine, or of one that was killed: if it was, remove this file", lock)


class ManualDeepSpeedStrategy(DeepSpeedStrategy):
    """Lightning's DeepSpeed strategy for modules that take their optimizer steps themselves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of Lightning's `DeepSpeedStrategy`; a DeepSpeedNeedsError if DeepSpeed is not installed."""
        refuse_without_deepspeed(f"trainer.strategy: {type(self).__name__}")
        if not torch.cuda.is_available():
            os.environ.setdefault("DS_ACCELERATOR", "cpu")  # DeepSpeed would find the same, with a warning
        super().__init__(*args, **kwargs)

    def setup_environment(self) -> None:
        """As Lightning's, also on CPU with gloo."""
        cpu = isinstance(self.accelerator, CPUAccelerator)
        if cpu:
            # an index stands for the local rank; tensors say `cpu` all the same
            self.parallel_devices = [torch.device("cpu", i) for i in range(len(self.parallel_devices or []))]
        with building_operators():
            (DDPStrategy if cpu else DeepSpeedStrategy).setup_environment(self)

    def init_deepspeed(self) -> None:
        """Start the engine with the module's own bound on the gradient norm, and under stages 2 and 3 with sums of gradients in float32."""
        # ZeRO-3 says at every run that it sees no tensors in a dataclass; the modules that give one own no parameters
        logging.getLogger("DeepSpeed").addFilter(lambda record: "unknown inputs or outputs" not in record.getMessage())
        config = self.settings
        learner = getattr(self.lightning_module, "learner", None)
        wanted = (None if learner is None else learner.settings.max_grad_norm) or 0.0
        given = config.get("gradient_clipping") or wanted
        config["gradient_clipping"] = wanted
        if given != wanted:
            raise ValueError(
                f"the DeepSpeed config says gradient_clipping: {given}, and model.max_grad_norm is {wanted or 'null'}: "
                "leave it out of the DeepSpeed config"
            )
        if asked := sorted({"writer", "load_universal", "checkpoint_serialization"} & set(config.get("checkpoint", {}))):
            raise ValueError(f"the DeepSpeed config sets checkpoint.{asked[0]}, and there is one way to write and load: leave it out")
        if self.engine_dtype == torch.bfloat16 and self._stage >= 2:
            # stage 1 would change its optimizer for this, and its checkpoints with it
            config.setdefault("data_types", {}).setdefault("grad_accum_dtype", "fp32")
        config.setdefault("zero_force_ds_cpu_optimizer", False)  # else it offloads no optimizer but its own, which computes the same
        with building_operators():
            super().init_deepspeed()

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: str | os.PathLike[str], storage_options: object = None) -> None:
        """As Lightning does, into a folder of another name, which gets its own when it is complete; weights alone as one file.

        Raises:
            CheckpointError: something in it could not be loaded again, or could not be written.
        """
        path = Path(self.broadcast(filepath)).absolute()
        if "optimizer_states" not in checkpoint:
            learner: Any = module_of(self).learner
            # gathered one after the other on all ranks, and kept on the first one's CPU
            gathered = ((n, learner.adapter.whole(w).detach().cpu()) for n, w in module_of(self).state_dict(keep_vars=True).items())
            weights = {name: weight for name, weight in gathered if self.is_global_zero}
            self._on_first_rank(lambda: self.checkpoint_io.save_checkpoint({**checkpoint, "state_dict": weights}, path))
            return
        self._on_first_rank(lambda: self._make_room(path))
        written = Path(self.broadcast(beside(path, "partial")))
        with onto_disk(path):
            super().save_checkpoint(checkpoint, written, storage_options)
        self._on_first_rank(lambda: self._finish(checkpoint, written, path))

    def load_checkpoint(self, checkpoint_path: str | os.PathLike[str], weights_only: bool | None = None) -> dict[str, Any]:
        """As Lightning does, after the files were checked; nothing in them is executed.

        Raises:
            CheckpointError: files are damaged, or something else, or of other ranks or another stage.
        """
        refuse_execution(weights_only)
        path = Path(self.broadcast(checkpoint_path))
        if not (self.load_full_weights and self.zero_stage_3):
            written = check_together(path)
            refuse_shapes(path, module_of(self))
            self._refuse_others(path, written)
        with only_weights():
            return super().load_checkpoint(path, weights_only=True)

    def _refuse_others(self, path: Path, written: Written) -> None:
        training = self.lightning_module is not None and self.lightning_module.trainer.state.fn == "fit"
        if written.zero_stage is None:
            raise CheckpointError(
                f"ckpt_path: {str(path)!r} is one file, and DeepSpeed resumes from folders of its own.\n"
                "Type: --trainer.strategy ddp, or fsdp2, or auto with one device"
            )
        cut = 3 in (written.zero_stage, self._stage)
        if (training or cut) and (written.ranks, written.zero_stage) != (self.world_size, self._stage):
            raise CheckpointError(
                f"ckpt_path: {str(path)!r} was written under ZeRO stage {written.zero_stage} on {written.ranks} ranks, and this run has "
                f"stage {self._stage} on {self.world_size}: each rank's share of the optimizer fits no other.\nType: {written.strategy}"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """DeepSpeed's own settings; a RuntimeError if the trainer has not begun."""
        if not isinstance(self.config, dict):
            raise RuntimeError("DeepSpeed's settings are read when the trainer begins, and it has not begun")
        return self.config

    @property
    def engine_dtype(self) -> torch.dtype:
        """The dtype in which the engine keeps the weights that it computes with."""
        halves = {"bf16": torch.bfloat16, "fp16": torch.float16}
        return next((dtype for key, dtype in halves.items() if self.settings.get(key, {}).get("enabled")), torch.float32)

    @property
    def arrangement(self) -> str:
        """The name of its formulas in `rank_memory`."""
        stage, offloads = self._stage, (self.settings.get("zero_optimization") or {}).get("offload_optimizer") is not None
        return f"deepspeed_stage_{max(stage, 2)}_offload" if offloads else f"deepspeed_stage_{stage}" if stage else "ddp"

    @property
    def _stage(self) -> int:
        return int((self.settings.get("zero_optimization") or {}).get("stage", 0))

    def _on_first_rank(self, act: Callable[[], object]) -> None:
        agreed(act if self.is_global_zero else lambda: None)

    def _make_room(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.checkpoint_io, WholeFileIO):
            self.checkpoint_io.recover_once(path.parent)
        partial(path)

    def _finish(self, checkpoint: dict[str, Any], written: Path, path: Path) -> None:
        try:
            for file in states_in(written):
                refuse_unsafe(checkpoint, unsafe_names(file))
            write_list(written, Written(self.world_size, self._stage))
            publish(written, path)
        finally:
            remove(written)

    @contextmanager
    def model_sharded_context(self) -> Generator[None, None, None]:
        """Nothing: transformers initialises weights by their shapes, so a model is built whole on the CPU and cut by the engine."""
        self._init_config_if_needed()
        yield

    def training_step(self, *args: object, **kwargs: object) -> Any:
        """The module's step itself: its micro-batches go through the engine one by one."""
        with self.precision_plugin.train_step_context():
            return module_of(self).training_step(*args, **kwargs)

    def validation_step(self, *args: object, **kwargs: object) -> Any:
        with self.precision_plugin.val_step_context():
            return module_of(self).validation_step(*args, **kwargs)

    def test_step(self, *args: object, **kwargs: object) -> Any:
        with self.precision_plugin.test_step_context():
            return module_of(self).test_step(*args, **kwargs)

    def predict_step(self, *args: object, **kwargs: object) -> Any:
        with self.precision_plugin.predict_step_context():
            return module_of(self).predict_step(*args, **kwargs)
