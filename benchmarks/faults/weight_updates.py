"""Trains a real model in bfloat16 with engines that have weights of their own: healthy updates are no fault, and each fault is named.

Run `OMP_NUM_THREADS=1 python -m benchmarks.faults.weight_updates --model FOLDER`.
`ProcessEngine` and `VLLMEngine`, the latter with a program in the place of `vllm serve`, first make 20 updates each at the rate 1e-6.
Then each fault is planted in an update; the table says at which step the run was ended, and with what words.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from lightrl_grpo import GRPO
from lightrl_vllm import VLLMEngine
from lightrl_workshop import quiet_trainer

from lightrl import (
    LoraPolicy,
    PolicyOptimization,
    PolicyWeights,
    PretrainedPolicy,
    ProcessEngine,
    Prompt,
    PromptData,
    PromptSource,
    Request,
    RolloutEngine,
    TransformersEngine,
)
from lightrl.policy.weights import TrainerWeights

UPDATES, PLANTED = 20, 3


def planted_at(fault: str) -> int:
    """The update that has a fault: the third, but an engine that drops adapters does so from the first that moves them."""
    return 1 if fault == "adapters dropped" else PLANTED


SERVER = Path(__file__).parents[2] / "plugins" / "lightrl-vllm" / "tests" / "tiny_vllm.py"


class Faulty(TransformersEngine):
    """Decodes with a copy of the weights, as told until an update, and from then on with a fault."""

    in_process = False

    def __init__(self, fault: str = "", max_new_tokens: int = 8) -> None:
        """
        Args:
            fault: one of `FAULTS`, or none.
            max_new_tokens: of a completion.
        """
        super().__init__(max_new_tokens=max_new_tokens)
        self.fault, self.warmer = fault, False
        self.kept_weights: TrainerWeights | None = None
        self.last_weights: TrainerWeights | None = None

    def update_weights(self, weights: PolicyWeights, version: int) -> None:
        """Take the weights, or not."""
        newest = TrainerWeights(copy.deepcopy(weights.policy))
        faulty = self.fault if version >= planted_at(self.fault) else ""
        given = {"missed": self.kept_weights, "one update late": self.last_weights}.get(faulty) or newest
        if faulty == "other weights":
            with torch.no_grad():
                for parameter in given.policy.parameters():
                    parameter.mul_(1 + 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        if faulty == "adapters dropped":
            for name, parameter in given.policy.model.named_parameters():
                if "lora_B" in name:
                    parameter.data.zero_()
        self.warmer = faulty == "another temperature"
        self.kept_weights, self.last_weights = given if faulty != "missed" else self.kept_weights, newest
        super().update_weights(given, version)

    def submit(self, requests: Sequence[Request]) -> None:
        """Sample at another temperature than was asked for, with that fault."""
        if self.warmer:
            requests = [replace(one, sampling=replace(one.sampling, temperature=1.3 * one.sampling.temperature)) for one in requests]
        super().submit(requests)


FAULTS: dict[str, tuple[str, ...]] = {
    "process": ("missed", "one update late", "other weights", "another temperature", "adapters dropped"),
    "vllm": ("stale", "colder log-probs", "one token off", "raw log-probs", "stale adapters"),
}
"""By engine; those of `vllm` are the server's."""


def main() -> int:
    """Print the table; 1 if a healthy run was ended, or a fault was not named at its first update."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or GGUF file of a chat model")
    parser.add_argument("--engines", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--faults", nargs="+", metavar="NAME", help="of: none, " + ", ".join(sum(FAULTS.values(), ())))
    parser.add_argument("--precision", choices=["bf16-true", "bf16-mixed", "32-true"], default="bf16-true")
    arguments = parser.parse_args()
    failed = 0
    print(f"{'engine':<9}{'planted':<21}{'update':>7}{'largest':>9}{'alarms':>8}{'seconds':>9}  what was said")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.engines:
            for fault in ("", *FAULTS[name]):
                if arguments.faults and (fault or "none") not in arguments.faults:
                    continue
                policy = policy_of(arguments.model, arguments.precision, adapters="adapters" in fault)
                started = time.perf_counter()
                watch, complaint = Watch(), ""
                with engine_of(name, fault, policy, Path(folder), watch) as engine:
                    try:
                        train(engine, policy, arguments.precision, PLANTED + 2 if fault else UPDATES, watch)
                    except RuntimeError as error:
                        complaint = str(error)
                good = watch.updates == (planted_at(fault) if fault else UPDATES) and bool(complaint) == bool(fault) and not watch.alarms
                failed += not good
                gc.collect()
                numbers = (
                    f"{watch.updates:>7}{max(watch.deviations, default=0):>9.4f}{watch.alarms:>8}{time.perf_counter() - started:>9.0f}"
                )
                print(f"{name:<9}{fault or '-':<21}{numbers}  {'' if good else 'WRONG: '}{complaint[:300]}", flush=True)
    return int(failed > 0)


def policy_of(model: str, precision: str, adapters: bool) -> PretrainedPolicy | LoraPolicy:
    """The policy in the format of the precision; adapters of it, if a fault is about them."""
    base = PretrainedPolicy(model, dtype="bfloat16" if precision == "bf16-true" else "float32")
    return LoraPolicy(base, r=8) if adapters else base


class Sums(PromptSource):
    """Short sums."""

    size = 81

    def prompt(self, index: int) -> Prompt:
        """What two digits are together."""
        a, b = 1 + index // 9, 1 + index % 9
        return Prompt(id=str(index), messages=({"role": "user", "content": f"What is {a} + {b}?"},), answer=str(a + b))


class Watch(Callback):
    """Counts updates, keeps the deviations that were logged, and calls a function before the update with the fault."""

    def __init__(self) -> None:
        self.updates, self.alarms, self.deviations, self.plant = 0, 0, list[float](), lambda: None

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, *arguments: object) -> None:
        """Called before each rollout."""
        self.updates = trainer.current_epoch
        if self.updates == PLANTED:
            self.plant()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *arguments: object) -> None:
        """Called after each rollout."""
        self.updates = trainer.current_epoch + 1
        self.deviations.append(pl_module.numbers.get("engine/deviation", 0.0))
        self.alarms += sum(value > 0 for name, value in pl_module.numbers.items() if name.startswith("alarms/"))


def train(engine: RolloutEngine, policy: PretrainedPolicy | LoraPolicy, precision: Any, rollouts: int, watch: Watch) -> None:
    """GRPO with one prompt a rollout."""
    seed_everything(0, verbose=False)
    module = PolicyOptimization(
        policy=policy,
        algorithm=GRPO(kl=None),
        rewards={"length": lambda completion: float(len(completion))},
        engine=engine,
        prompts_per_rollout=1,
        optimizer=lambda weights: torch.optim.AdamW(weights, lr=1e-4 if isinstance(policy, LoraPolicy) else 1e-6, weight_decay=0.0),
    )
    quiet_trainer(max_epochs=rollouts, precision=precision, callbacks=[watch]).fit(module, datamodule=PromptData(train=Sums()))


@contextlib.contextmanager
def engine_of(name: str, fault: str, policy: PretrainedPolicy | LoraPolicy, folder: Path, watch: Watch) -> Iterator[RolloutEngine]:
    """An engine with weights of its own, which has the fault from the third update on."""
    if name == "process":
        yield ProcessEngine(Faulty(fault))
        return
    base = policy.base if isinstance(policy, LoraPolicy) else policy
    if not (served := folder / "served").exists():
        base.build().save(served)
    with server(served, base.dtype) as (address, ask):
        watch.plant = lambda: ask("/faults", {"names": [fault.removesuffix(" adapters")]})
        how = "adapters" if isinstance(policy, LoraPolicy) else "folder"
        # raw log-probs differ from processed ones at a temperature other than 1
        temperature = 0.8 if fault == "raw log-probs" else 1.0
        yield VLLMEngine(max_new_tokens=8, temperature=temperature, addresses=[address], weights=how, folder=str(folder / "vllm"))


@contextlib.contextmanager
def server(folder: Path, dtype: str) -> Iterator[tuple[str, Callable[[str, Any], Any]]]:
    """The address of a running server of a folder, and a function that sends it a JSON value."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    words = ["serve", str(folder), "--port", address.rpartition(":")[2], "--logprobs-mode", "processed_logprobs", "--dtype", dtype]
    process = subprocess.Popen([sys.executable, str(SERVER), *words], stdout=subprocess.DEVNULL)

    def ask(path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(address + path, data), timeout=60) as reply:
            return json.loads(reply.read() or b"null")

    try:
        while True:
            try:
                ask("/health", None)
                break
            except OSError as error:
                if process.poll() is not None:
                    raise RuntimeError(f"the server has ended with status {process.returncode} before it answered") from error
            time.sleep(0.2)
        yield address, ask
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
