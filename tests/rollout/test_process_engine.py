"""Engines in worker processes give what they give in the trainer's process, whoever falls."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightrl_workshop import quiet_trainer, rollouts_with
from lightrl_workshop.checks.continuations import answers, peaked_policy, remaining, request

from lightrl import (
    Environment,
    GroupRelative,
    GroupSampler,
    LoraPolicy,
    PolicyOptimization,
    PolicySource,
    ProcessEngine,
    Prompt,
    PromptData,
    Reversal,
    Rollout,
    SingleTurn,
    TinyPolicy,
    TrainingBatch,
    TransformersEngine,
)
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.hosting.engine_host import EngineHost, FailedWorkerError, WorkerLink
from lightrl.rollout.hosting.engine_messages import End, Outline, Updated
from lightrl.rollout.hosting.engine_pool import EnginePool
from lightrl.rollout.hosting.engine_worker import EngineWorker
from lightrl.rollout.hosting.policy_outline import PolicyOutline

sys.path.insert(0, str(Path(__file__).parent))
from hosted_engines import Counting, Obedient

PROMPTS = [Prompt(id=str(i), text="7" * (i % 3) + f"{i}=") for i in range(6)]
POLICY = peaked_policy()
LIMIT_S = 6.0


def embedded(environment: Environment) -> Rollout:
    """Rows of the engine in this process."""
    return rollouts_with(POLICY, TransformersEngine(12, slice_rows=4), environment).rollout(PROMPTS, 3)


def expect_equal(found: Rollout, expected: Rollout) -> None:
    """Tokens and log-probs are the same to the bit."""
    assert torch.equal(found.input_ids, expected.input_ids)
    assert torch.equal(found.rollout_logprobs, expected.rollout_logprobs)
    assert found.finish_reason == expected.finish_reason
    assert torch.equal(found.policy_version, expected.policy_version)
    assert found.extras.keys() == expected.extras.keys()
    assert all(torch.equal(found.extras[name], extra) for name, extra in expected.extras.items())


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the hosted engine finds what it is to do."""
    return tmp_path_factory.mktemp("engine")


@pytest.fixture(scope="module")
def hosted(folder: Path) -> Iterator[ProcessEngine]:
    """Two workers, who are the same in all tests of this file."""
    engine = ProcessEngine(Obedient(str(folder)), workers=2, timeout_s=LIMIT_S)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture
def tell(folder: Path) -> Callable[[str], None]:
    """Leaves the engine a message."""
    return lambda message: (folder / message).touch()


def pids(folder: Path, event: str = "started") -> set[int]:
    """The processes that have said something."""
    return {int(file.name.split()[-1]) for file in folder.glob(f"{event} *")}


def running(processes: set[int]) -> set[int]:
    """Those that run; a zombie does not."""
    return {
        pid for pid in processes if (stat := Path(f"/proc/{pid}/stat")).exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    }


@pytest.mark.parametrize("environment", [SingleTurn(), Counting(max_turns=3)], ids=["single turns", "episodes"])
def test_rows_are_those_of_the_embedded_engine(hosted: ProcessEngine, environment: Environment) -> None:
    found = rollouts_with(POLICY, hosted, environment).rollout(PROMPTS, 3)
    expect_equal(found, embedded(environment))
    assert hosted.statistics() == {"replaced_workers": 0.0}


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.rare), 3])
def test_rows_do_not_depend_on_the_number_of_workers(workers: int) -> None:
    engine = ProcessEngine(TransformersEngine(12, slice_rows=4), workers=workers)
    try:
        for environment in (SingleTurn(), Counting(max_turns=3)):
            expect_equal(rollouts_with(POLICY, engine, environment).rollout(PROMPTS, 3), embedded(environment))
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("how", "environment"),
    [
        pytest.param("die", SingleTurn(), id="die, single turns"),
        pytest.param("die", Counting(max_turns=3), id="die, episodes"),
        pytest.param("hang", SingleTurn(), id="hang, single turns"),
        pytest.param("hang", Counting(max_turns=3), id="hang, episodes", marks=pytest.mark.thorough),
    ],
)
def test_a_worker_that_falls_is_replaced_and_nothing_changes(
    hosted: ProcessEngine, tell: Callable[[str], None], environment: Environment, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    rollouts = rollouts_with(POLICY, hosted, environment)
    hosted.statistics()
    tell(how)
    found, expected = rollouts.rollout(PROMPTS, 3), embedded(environment)
    assert torch.equal(found.input_ids, expected.input_ids)
    # episodes are read again, and reading rounds otherwise than sampling did
    torch.testing.assert_close(found.rollout_logprobs, expected.rollout_logprobs, atol=1e-6, rtol=1e-6)
    assert hosted.statistics() == {"replaced_workers": 1.0}
    assert {"die": "died: signal 9 (SIGKILL)", "hang": f"gave no result for {LIMIT_S:g} s"}[how] in caplog.text


def test_an_exception_comes_back_with_its_place(hosted: ProcessEngine, tell: Callable[[str], None]) -> None:
    rollouts = rollouts_with(POLICY, hosted)
    tell("fail")
    with pytest.raises(
        RuntimeError, match=r"Obedient failed in worker process \d: ValueError: the logits are odd \(.*hosted_engines.py:\d+\)"
    ):
        rollouts.rollout(PROMPTS, 3)
    # whoever goes on nevertheless gets a new worker
    expect_equal(rollouts_with(POLICY, hosted).rollout(PROMPTS, 3), embedded(SingleTurn()))


def test_a_worker_that_has_raised_is_not_taken_for_dead_when_it_is_asked_again(
    hosted: ProcessEngine, folder: Path, tell: Callable[[str], None]
) -> None:
    rollouts = rollouts_with(POLICY, hosted)
    rollouts.rollout(PROMPTS, 3)
    # with new weights both workers are idle: after its last result a worker asks its engine once more, which would obey then
    rollouts.update_weights(TrainerWeights(POLICY), 1)
    hosted.statistics()
    tell("fail of one who is asked again")
    before = pids(folder, "obeyed fail*")
    hosted.submit([request(number) for number in range(4)])
    _wait_for(lambda: len(pids(folder, "obeyed fail*")) > len(before), 60)
    _wait_for(lambda: not running(pids(folder, "obeyed fail*")), 60)
    # it has ended, and what it said has not been read
    hosted.submit([request(number) for number in range(4, 16)])
    with pytest.raises(RuntimeError, match=r"Obedient failed in worker process \d: ValueError: the logits are odd"):
        remaining(hosted, [request(number) for number in range(16)])
    assert hosted.statistics() == {"replaced_workers": 0.0}
    hosted.forget(range(16))
    expect_equal(rollouts_with(POLICY, hosted).rollout(PROMPTS, 3), embedded(SingleTurn()))


def test_two_updates_on_end_leave_the_last_weights(hosted: ProcessEngine) -> None:
    other = peaked_policy(seed=1)
    rollouts = rollouts_with(other, hosted)
    rollouts.update_weights(TrainerWeights(other), 1)
    expected = rollouts_with(other, TransformersEngine(12, slice_rows=4), version=1)
    expect_equal(rollouts.rollout(PROMPTS, 3), expected.rollout(PROMPTS, 3))


def test_an_update_may_follow_the_last_result_at_once(hosted: ProcessEngine) -> None:
    # nobody has said that the episodes are over
    asked = [request(number, further=True) for number in range(5)]
    for version in (1, 2):
        hosted.update_weights(TrainerWeights(POLICY), version)
        found = answers(hosted, asked)
        assert {result.versions for result in found.values()} == {((version, len(result.tokens)),) for result in found.values()}


def test_other_tensors_than_at_first_are_refused(hosted: ProcessEngine) -> None:
    policy = peaked_policy()
    rollouts = rollouts_with(policy, hosted)
    policy.model.model.norm.weight = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match=r"model.norm.weight is \[3\] float32, and at the first update it was \[16\] float32"):
        rollouts.update_weights(TrainerWeights(policy), 1)


@pytest.mark.thorough
def test_when_too_many_fall_the_run_ends_with_the_reasons_and_nothing_is_left(tmp_path: Path) -> None:
    engine = ProcessEngine(Obedient(str(tmp_path)), workers=2, max_replacements=2)
    rollouts = rollouts_with(POLICY, engine)
    for number in range(3):
        (tmp_path / f"die {number}").touch()
    with pytest.raises(
        RuntimeError, match=r"3 worker processes failed, and 2 may be replaced \(max_replacements\):(\n  worker . of Obedient.*){3}"
    ):
        rollouts.rollout(PROMPTS, 3)
    rollouts.close()
    assert len(pids(tmp_path)) == 4
    assert not running(pids(tmp_path))
    # the one that still ran was told to close its engine
    assert pids(tmp_path, "closed") <= pids(tmp_path)
    assert len(pids(tmp_path, "closed")) == 1


TRAINER = """
import sys
sys.path.insert(0, sys.argv[1])
from hosted_engines import Obedient
from lightrl import ProcessEngine, Prompt
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy
rollouts = rollouts_with(peaked_policy(), ProcessEngine(Obedient(sys.argv[2]), workers=2))
rollouts.rollout([Prompt(id=str(i), text=f"{i}=") for i in range(6)], 3)
"""


@pytest.mark.thorough
def test_workers_end_with_the_trainer_whatever_they_do(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"hang {number}").touch()
    trainer = subprocess.Popen([sys.executable, "-c", TRAINER, str(Path(__file__).parent), str(tmp_path)])
    try:
        _wait_for(lambda: len(pids(tmp_path, "obeyed hang")) == 2, 300)
        workers = pids(tmp_path)
        servers = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in workers}
        assert running(workers | servers) == workers | servers
        assert len(workers) == 2
        assert len(servers) == 1
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()
    _wait_for(lambda: not running(workers | servers), 60)
    assert os.getpid() not in servers


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def _trained(policy: PolicySource, engine: Any, environment: Environment) -> tuple[torch.Tensor, list[dict[str, float]]]:
    """The weights after five rollouts, and the numbers of each."""
    numbers = list[dict[str, float]]()

    class Watched(PolicyOptimization):
        def finish(self, batch: TrainingBatch, seconds: float) -> None:
            super().finish(batch, seconds)
            numbers.append(self.numbers)

    module = Watched(
        policy=policy,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), epochs=2),
        rewards={},
        engine=engine,
        environment=environment,
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    quiet_trainer(max_epochs=5).fit(module, datamodule=PromptData(train=Reversal(examples=100)))
    return torch.nn.utils.parameters_to_vector(module.policy.parameters()).detach(), numbers


@pytest.mark.thorough
@pytest.mark.parametrize("adapted", [pytest.param(False, marks=pytest.mark.rare), True])
def test_a_policy_learns_the_same(adapted: bool) -> None:
    base = TinyPolicy(hidden=16, layers=1, heads=2)
    policy: PolicySource = LoraPolicy(base, r=2) if adapted else base
    ours, _ = _trained(policy, TransformersEngine(8, slice_rows=8), Counting(max_turns=3))
    hosted, numbers = _trained(policy, ProcessEngine(TransformersEngine(8, slice_rows=8), workers=2), Counting(max_turns=3))
    before = torch.nn.utils.parameters_to_vector(policy.build().parameters()).detach()
    assert float((ours - before).abs().max()) > 1e-2
    assert torch.equal(hosted, ours)
    # the canary of every update has seen the weights of that update
    assert [set(of) >= {"engine/deviation", "engine/replaced_workers"} for of in numbers] == [True] * 5
    assert max(of["engine/deviation"] for of in numbers) < 1e-4
    assert {of["engine/replaced_workers"] for of in numbers} == {0.0}


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 workers, and TransformersEngine has all rows of a call in one slice .* set slice_rows"):
        ProcessEngine(TransformersEngine(), workers=2)
    with pytest.raises(ValueError, match=r"workers >= 1 and timeout_s > 0, got workers=0, timeout_s=0"):
        ProcessEngine(TransformersEngine(), workers=0, timeout_s=0)


class Noted(WorkerLink):
    """A worker that takes all weights and does nothing."""

    def __init__(self, sent: list[Any]) -> None:
        self.sent = sent

    @property
    def alive(self) -> bool:
        return True

    def send(self, message: object) -> None:
        self.sent.append(message)

    def receive(self) -> object:
        return Updated(0)

    def timed_out(self, what: str) -> FailedWorkerError:
        return FailedWorkerError(what)

    def finish(self, seconds: float) -> None:
        """It has ended."""

    def end(self) -> None:
        """It has ended."""


class NotedHost(EngineHost):
    """Workers that are told of devices which this machine may not have."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def start_worker(self) -> WorkerLink:
        return Noted(self.sent)

    def publish(self, tensors: Any, whole: bool) -> Any:
        return None

    def ready(self, links: Any, seconds: float) -> Any:
        return links

    @property
    def devices(self) -> list[str]:
        return [message.device for message in self.sent if isinstance(message, Outline)]


def test_b5_workers_of_the_ranks_of_a_machine_are_on_different_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for rank in range(3):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        host = NotedHost()
        devices = [f"cuda:{number}" for number in (4, 5, 6, 7, 8)]
        EnginePool("Engine", host, 2, 10.0, 0, None, devices).update(TrainerWeights(POLICY), 0)
        found.append(host.devices)
    # five devices for six workers
    assert found == [["cuda:4", "cuda:5"], ["cuda:6", "cuda:7"], ["cuda:8", "cuda:4"]]


def test_b5_a_worker_takes_its_device_before_anything_else_takes_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned memory would have a context there."""
    taken: list[torch.device] = []
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace(set_device=taken.append))
    messages: queue.SimpleQueue[object] = queue.SimpleQueue()
    for message in (Outline(PolicyOutline.of(POLICY), "cuda:3", 1), End()):
        messages.put(message)
    EngineWorker(TransformersEngine(), SimpleNamespace(receive=messages.get)).run()  # type: ignore[arg-type]
    assert taken == [torch.device("cuda", 3)]


def test_calls_in_the_wrong_order_say_so() -> None:
    engine = ProcessEngine(TransformersEngine())
    with pytest.raises(RuntimeError, match=r"before update_weights"):
        engine.submit([request(1)])
    with pytest.raises(RuntimeError, match=r"before start\(\)"):
        engine.update_weights(TrainerWeights(POLICY), 0)
    assert engine.results() == []
    engine.close()
