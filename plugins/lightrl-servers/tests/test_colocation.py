"""A server on the trainer's device: it sleeps while the policy learns, wakes for weights, and each fault of that is named."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from lightrl_servers.server_engine import ServerEngine
from lightrl_workshop import quiet_trainer
from lightrl_workshop.checks.continuations import answers, group, peaked_policy
from peft import LoraConfig

from lightrl import (
    Function,
    GroupRelative,
    GroupSampler,
    PeftPolicy,
    Policy,
    PolicyOptimization,
    PolicySource,
    PretrainedPolicy,
    PromptData,
    Reversal,
    TrainingBatch,
)
from lightrl.policy.weights import TrainerWeights

PLUGINS = Path(__file__).parents[2]
KINDS = {"vllm": ("VLLMEngine", "--gpu-memory-utilization"), "sglang": ("SGLangEngine", "--mem-fraction-static")}
"""Of each kind of server its engine, and the option for the share of the memory."""
RARE = (("sglang", "folder"), ("vllm", "adapters"))
CASES = [
    pytest.param(("vllm", "folder"), id="vllm-folder"),
    pytest.param(("sglang", "adapters"), id="sglang-adapters", marks=pytest.mark.thorough),
    *(pytest.param(case, id="-".join(case), marks=[pytest.mark.thorough, pytest.mark.rare]) for case in RARE),
]
SHARE = f"{0.9e9 / psutil.virtual_memory().total:.6f}"
"""Well above what the process of the server takes without it."""


class Colocated:
    """An engine, its policy and its server, at work for all tests of a kind of weights."""

    def __init__(self, source: PolicySource, policy: Policy, engine: ServerEngine) -> None:
        self.source, self.policy, self.engine, self.version = source, policy, engine, 0
        engine.start()
        self.update()

    @torch.no_grad()
    def move(self) -> None:
        """Other weights than before, which do not drift."""
        for parameter in self.policy.parameters():
            if parameter.requires_grad:
                step = 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
                parameter.add_(step if self.version % 2 else -step)

    def update(self) -> None:
        self.version += 1
        self.engine.update_weights(TrainerWeights(self.policy), self.version)

    @property
    def address(self) -> str:
        fleet = self.engine._fleet
        assert fleet is not None
        return fleet.servers[0].address

    def plant(self, *faults: str) -> None:
        """Have the server fail in these ways, and no others; it takes requests again."""
        self.ask("/faults", {"names": faults})

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.address + path, data), timeout=10) as reply:
            return json.loads(reply.read())

    def rollout(self) -> None:
        assert {result.versions[0][0] for result in answers(self.engine, group(self.engine.sampling)).values()} == {self.version}


@pytest.fixture(params=CASES, scope="module")
def colocated(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colocated]:
    (name, weights), folder = request.param, tmp_path_factory.mktemp("colocated")
    kind, option = KINDS[name]
    policy, model = peaked_policy(), str(folder / "base")
    policy.save(folder / "base")
    source: PolicySource = PretrainedPolicy(model)
    if weights == "adapters":
        source = PeftPolicy(source, lambda: LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
        policy = source.build()
    engine = getattr(pytest.importorskip(f"lightrl_{name}"), kind)(
        colocate=True, serve=[option, SHARE], weights=weights, model=model, folder=str(folder / "weights"), temperature=0.7, retries=0
    )
    program = folder / "bin" / name
    program.parent.mkdir()
    dummy = PLUGINS / f"lightrl-{name}" / "tests" / f"tiny_{name}.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{dummy}" "$@"\n')
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        yield Colocated(source, policy, engine)
    engine.close()


def test_it_sleeps_while_the_policy_learns_and_wakes_with_its_weights(colocated: Colocated) -> None:
    held = []
    for _ in range(2):
        colocated.rollout()
        held.append(sum(p.memory_info().rss for p in psutil.Process().children(recursive=True)))
        colocated.engine.rest()
        held.append(sum(p.memory_info().rss for p in psutil.Process().children(recursive=True)))
        colocated.engine.rest()
        colocated.move()
        colocated.update()
    assert min(held[0] - held[1], held[2] - held[3]) > 0.8e9
    # weights that have not changed are given again, since it has dropped its own
    colocated.engine.rest()
    colocated.engine.update_weights(TrainerWeights(colocated.policy), colocated.version)
    colocated.rollout()


def test_requests_while_it_sleeps_are_refused(colocated: Colocated) -> None:
    colocated.engine.rest()
    with pytest.raises(RuntimeError, match="before update_weights"):
        colocated.engine.submit(group(colocated.engine.sampling))
    colocated.update()


def test_sleep_that_gives_nothing_back_is_named(colocated: Colocated) -> None:
    colocated.plant("sleep frees nothing")
    with pytest.raises(RuntimeError, match=r"it sleeps and has given back 0\.\d\d of the \d\.\d\d GB that it took"):
        colocated.engine.rest()
    colocated.plant()
    colocated.update()
    colocated.rollout()


AT_WAKING = {
    "stale": "its weights are not the policy's|answers as it did with version",
    "wakes with old weights": "its weights are not the policy's|answers as it did with version",
    "colder log-probs": "the weights are right and the log-probs are not of logits / temperature",
    "wrong version": "weights of version -3, and the last update was to",
}


@pytest.mark.parametrize("fault", AT_WAKING)
def test_a_fault_at_waking_is_named(fault: str, colocated: Colocated) -> None:
    colocated.rollout()
    colocated.engine.rest()
    colocated.move()
    colocated.plant(fault)
    with pytest.raises(RuntimeError, match=AT_WAKING[fault]) as found:
        colocated.update()
    assert colocated.address in str(found.value)
    colocated.plant()
    colocated.engine.rest()
    colocated.update()


def test_a_server_that_sleeps_on_is_named_where_it_can_be_asked(colocated: Colocated) -> None:
    if type(colocated.engine).__name__ != "VLLMEngine":
        pytest.skip("SGLang has no route that says whether it sleeps: the check after the update gets no answer in time")
    colocated.engine.rest()
    colocated.plant("sleeps on")
    with pytest.raises(RuntimeError, match="it sleeps on, though"):
        colocated.update()
    colocated.plant()
    colocated.engine.rest()
    colocated.update()


@pytest.mark.thorough
def test_a_server_that_dies_asleep_is_named_with_the_end_of_its_log(colocated: Colocated) -> None:
    colocated.engine.rest()
    own = colocated.engine._own
    assert own is not None
    os.kill(own.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"no answer(.|\n)*has ended with status -9; the end of .*\.log:"):
        colocated.update()
    colocated.engine.close()
    colocated.engine.start()
    colocated.update()
    colocated.rollout()


@pytest.mark.thorough
def test_five_rollouts_with_sleep_between_have_the_trainers_log_probs(colocated: Colocated) -> None:
    deviations, counts = list[float](), list[dict[str, int]]()

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            deviations.append(self.numbers["ratio/first_pass_deviation"])

        def on_fit_end(self) -> None:
            counts.append(colocated.ask("/counts"))

    module = Watched(
        policy=colocated.source,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), minibatches=1, epochs=2),
        rewards={"small": Function("lightrl_workshop.toy.small_digits", runs="inline")},
        engine=colocated.engine,
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    before = colocated.ask("/counts")
    trainer = quiet_trainer(max_epochs=5, check_val_every_n_epoch=5, num_sanity_val_steps=0)
    trainer.fit(module, datamodule=PromptData(train=Reversal(examples=100), validation_size=2))
    assert len(deviations) == 5
    assert max(deviations) < 1e-4
    more = {path: number - before.get(path, 0) for path, number in counts[0].items()}
    # after each rollout, and after both validations, before the first one and behind the last one
    assert more.get("/release_memory_occupation", 0) + sum(n for path, n in more.items() if path.startswith("/sleep?")) == 5 + 2
    wakes = [n for path, n in more.items() if path.startswith("/wake_up?")] or [more["/resume_memory_occupation"]]
    assert sum(wakes) == 2 * (5 + 1), "weights, then keys and values"
