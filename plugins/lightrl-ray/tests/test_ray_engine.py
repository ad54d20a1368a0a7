"""Engines in Ray actors give what they give in the trainer's process, whoever falls."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_ray import RayEngine
from lightrl_workshop import quiet_trainer, rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy, request
from told_engine import Counting, ToldEngine

from lightrl import (
    Environment,
    GroupRelative,
    GroupSampler,
    LoraPolicy,
    Policy,
    PolicyOptimization,
    PolicySource,
    Prompt,
    PromptData,
    Reversal,
    Rollout,
    SingleTurn,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.policy.weights import TrainerWeights

PROMPTS = [Prompt(id=str(i), text="7" * (i % 3) + f"{i}=") for i in range(6)]
POLICY = peaked_policy()
LIMIT_S = 60.0
"""Seconds after which an actor hangs: more than a busy machine makes it wait for its turn."""
KINDS = pytest.mark.parametrize("environment", [SingleTurn(), Counting(max_turns=3)], ids=["single turns", "episodes"])


def embedded(environment: Environment, policy: Policy = POLICY, version: int = 0) -> Rollout:
    """Rows of the engine in this process."""
    return rollouts_with(policy, TransformersEngine(12, slice_rows=4), environment, version).rollout(PROMPTS, 3)


def expect_equal(found: Rollout, expected: Rollout) -> None:
    """Tokens and log-probs are the same to the bit."""
    assert torch.equal(found.input_ids, expected.input_ids)
    assert torch.equal(found.rollout_logprobs, expected.rollout_logprobs)
    assert found.finish_reason == expected.finish_reason
    assert torch.equal(found.policy_version, expected.policy_version)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the engines of the actors find what they are to do."""
    return tmp_path_factory.mktemp("engine")


@pytest.fixture(scope="module")
def hosted(folder: Path, cluster: str) -> Iterator[RayEngine]:
    """Two actors, who are the same in all tests of this file."""
    engine = RayEngine(ToldEngine(str(folder)), actors=2, address=cluster, timeout_s=LIMIT_S)
    before = signal.getsignal(signal.SIGTERM)
    engine.start()
    assert signal.getsignal(signal.SIGTERM) is before
    yield engine
    engine.close()


def pids(folder: Path, event: str = "started") -> set[int]:
    """The processes that have said something."""
    return {int(file.name.split()[-1]) for file in folder.glob(f"{event} *")}


def running(processes: set[int]) -> set[int]:
    """Those that run; a zombie does not."""
    return {pid for pid in processes if (stat := Path(f"/proc/{pid}/stat")).exists() and _state(stat)[0] != "Z"}


def below(process: int) -> set[int]:
    """All processes that a process has started, and theirs."""
    parents = dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(_state(stat)[1])
        except OSError:
            # it has just ended
            continue
    found, new = set[int](), {process}
    while new := {pid for pid, parent in parents.items() if parent in new} - found:
        found |= new
    return found


def _state(stat: Path) -> list[str]:
    return stat.read_text().rpartition(")")[2].split()


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_rows_are_those_of_the_embedded_engine(hosted: RayEngine) -> None:
    expect_equal(rollouts_with(POLICY, hosted).rollout(PROMPTS, 3), embedded(SingleTurn()))
    assert hosted.statistics() == {"replaced_workers": 0.0}


@pytest.mark.thorough
@pytest.mark.parametrize("actors", [pytest.param(1, marks=pytest.mark.rare), 2])
def test_rows_do_not_depend_on_the_number_of_actors(cluster: str, actors: int) -> None:
    engine = RayEngine(TransformersEngine(12, slice_rows=4), actors=actors, address=cluster)
    try:
        for environment in (SingleTurn(), Counting(max_turns=3)):
            expect_equal(rollouts_with(POLICY, engine, environment).rollout(PROMPTS, 3), embedded(environment))
    finally:
        engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["die", pytest.param("hang", marks=pytest.mark.rare)])
@KINDS
def test_an_actor_that_falls_is_replaced_and_nothing_changes(
    hosted: RayEngine, folder: Path, environment: Environment, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    rollouts = rollouts_with(POLICY, hosted, environment)
    hosted.statistics()
    (folder / how).touch()
    found, expected = rollouts.rollout(PROMPTS, 3), embedded(environment)
    assert torch.equal(found.input_ids, expected.input_ids)
    # episodes are read again, and reading rounds otherwise than sampling did
    torch.testing.assert_close(found.rollout_logprobs, expected.rollout_logprobs, atol=1e-6, rtol=1e-6)
    assert hosted.statistics() == {"replaced_workers": 1.0}
    assert {"die": " died: ", "hang": "gave no result for 60 s"}[how] in caplog.text


@pytest.mark.thorough
@pytest.mark.rare
def test_an_exception_comes_back_with_its_place(hosted: RayEngine, folder: Path) -> None:
    rollouts = rollouts_with(POLICY, hosted)
    (folder / "fail").touch()
    with pytest.raises(RuntimeError, match=r"ToldEngine failed in Ray actor \d: ValueError: the logits are odd \(.*told_engine.py:\d+\)"):
        rollouts.rollout(PROMPTS, 3)
    # whoever goes on nevertheless gets a new actor
    expect_equal(rollouts_with(POLICY, hosted).rollout(PROMPTS, 3), embedded(SingleTurn()))


@pytest.mark.thorough
def test_two_updates_on_end_leave_the_last_weights(hosted: RayEngine) -> None:
    other = peaked_policy(seed=1)
    rollouts = rollouts_with(other, hosted)
    rollouts.update_weights(TrainerWeights(other), 1)
    expect_equal(rollouts.rollout(PROMPTS, 3), embedded(SingleTurn(), other, version=1))


@pytest.mark.thorough
def test_a_new_actor_has_the_base_and_the_last_adapters(hosted: RayEngine, folder: Path) -> None:
    policy = LoraPolicy(TinyPolicy(hidden=16, layers=1, heads=2), r=2).build()
    rollouts = rollouts_with(policy, hosted)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    rollouts.update_weights(TrainerWeights(policy), 1)
    (folder / "die").touch()
    hosted.statistics()
    expect_equal(rollouts.rollout(PROMPTS, 3), embedded(SingleTurn(), policy, version=1))
    assert hosted.statistics() == {"replaced_workers": 1.0}


@pytest.mark.thorough
def test_other_tensors_than_at_first_are_refused(hosted: RayEngine) -> None:
    policy = peaked_policy()
    rollouts = rollouts_with(policy, hosted)
    policy.model.model.norm.weight = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match=r"model.norm.weight is \[3\] float32, and at the first update it was \[16\] float32"):
        rollouts.update_weights(TrainerWeights(policy), 1)


@pytest.mark.thorough
def test_what_an_actor_cannot_load_ends_the_run(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("from lightrl import TransformersEngine\nclass OnlyHere(TransformersEngine):\n    ...\n")
    sys.path.insert(0, str(tmp_path))
    try:
        from only_here import OnlyHere  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    engine = RayEngine(OnlyHere(4), address=cluster)
    with pytest.raises(RuntimeError, match=r"cannot load its engine: .*No module named 'only_here'"):
        rollouts_with(POLICY, engine)
    engine.close()


@pytest.mark.thorough
def test_an_engine_that_cannot_be_sent_is_refused(cluster: str) -> None:
    inner = TransformersEngine(4)
    inner.lock = threading.Lock()  # type: ignore[attr-defined]
    engine = RayEngine(inner, address=cluster)
    with pytest.raises(RuntimeError, match=r"TransformersEngine cannot be sent to a Ray actor \(.*lock"):
        engine.start()
    engine.close()


@pytest.mark.thorough
@pytest.mark.rare
def test_when_too_many_fall_the_run_ends_with_the_reasons_and_only_the_cluster_is_left(cluster: str, tmp_path: Path) -> None:
    engine = RayEngine(ToldEngine(str(tmp_path)), actors=2, address=cluster, max_replacements=2)
    rollouts = rollouts_with(POLICY, engine)
    for number in range(3):
        (tmp_path / f"die {number}").touch()
    with pytest.raises(
        RuntimeError, match=r"3 Ray actors failed, and 2 may be replaced \(max_replacements\):(\n  worker . of ToldEngine.*){3}"
    ):
        rollouts.rollout(PROMPTS, 3)
    rollouts.close()
    assert len(pids(tmp_path)) == 4
    wait_for(lambda: not running(pids(tmp_path)), 10)
    # the one that still ran was told to close its engine
    assert len(pids(tmp_path, "closed")) == 1
    again = RayEngine(TransformersEngine(12, slice_rows=4), address=cluster)
    expect_equal(rollouts_with(POLICY, again).rollout(PROMPTS, 3), embedded(SingleTurn()))
    again.close()


def _trained(policy: PolicySource, engine: Any) -> torch.Tensor:
    """The weights after five rollouts."""
    module = PolicyOptimization(
        policy=policy,
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), epochs=2),
        rewards={},
        engine=engine,
        environment=Counting(max_turns=3),
        prompts_per_rollout=4,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    )
    quiet_trainer(max_epochs=5).fit(module, datamodule=PromptData(train=Reversal(examples=100)))
    return torch.nn.utils.parameters_to_vector(module.policy.parameters()).detach()


@pytest.mark.thorough
@pytest.mark.parametrize("adapted", [pytest.param(False, marks=pytest.mark.rare), True], ids=["full weights", "adapters"])
def test_a_policy_learns_the_same(cluster: str, adapted: bool) -> None:
    base = TinyPolicy(hidden=16, layers=1, heads=2)
    policy: PolicySource = LoraPolicy(base, r=2) if adapted else base
    ours = _trained(policy, TransformersEngine(8, slice_rows=8))
    hosted = _trained(policy, RayEngine(TransformersEngine(8, slice_rows=8), actors=2, address=cluster))
    before = torch.nn.utils.parameters_to_vector(policy.build().parameters()).detach()
    assert float((ours - before).abs().max()) > 1e-2
    assert torch.equal(hosted, ours)


TRAINER = """
import sys
from told_engine import ToldEngine
from lightrl import Prompt
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy
from lightrl_ray import RayEngine
rollouts = rollouts_with(peaked_policy(), RayEngine(ToldEngine(sys.argv[1]), actors=2))
rollouts.rollout([Prompt(id=str(i), text=f"{i}=") for i in range(6)], 3)
rollouts.close()
print("closed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a cluster of its own, which says when it has closed it."""
    process = subprocess.Popen([sys.executable, "-c", TRAINER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.thorough
@pytest.mark.rare
def test_a_cluster_that_was_started_here_ends_with_the_engine(trainer: subprocess.Popen[str], tmp_path: Path) -> None:
    wait_for(lambda: len(pids(tmp_path)) == 2, 300)
    assert pids(tmp_path) <= below(trainer.pid)
    assert trainer.stdout is not None
    assert "closed\n" in iter(trainer.stdout.readline, "")
    wait_for(lambda: not running(below(trainer.pid)), 10)
    assert pids(tmp_path, "closed") == pids(tmp_path)


@pytest.mark.thorough
def test_nothing_is_left_when_the_trainer_is_killed(trainer: subprocess.Popen[str], tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"hang {number}").touch()
    wait_for(lambda: len(pids(tmp_path, "obeyed hang")) == 2, 300)
    processes = below(trainer.pid)
    assert pids(tmp_path) < processes
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    wait_for(lambda: not running(processes), 60)


TWO = """
import sys
import ray
from lightrl import Prompt, TransformersEngine
from lightrl_workshop import rollouts_with
from lightrl_workshop.checks.continuations import peaked_policy
from lightrl_ray import RayEngine
one, other = (rollouts_with(peaked_policy(), RayEngine(TransformersEngine(4), address=sys.argv[1])) for _ in range(2))
one.close()
print(len(other.rollout([Prompt(id="1", text="1=")], 2).completions), "rows")
other.close()
print("connected" if ray.is_initialized() else "not connected")
"""


@pytest.mark.thorough
@pytest.mark.rare
def test_engines_of_one_process_share_its_connection_until_the_last_has_closed(cluster: str) -> None:
    done = subprocess.run([sys.executable, "-c", TWO, cluster], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["2 rows", "not connected"], done.stderr


OWN = """
import psutil
from lightrl_ray.cluster import Cluster
one, other = (Cluster(None, 1, {"CPU": 1}) for _ in range(2))
one.connect()
other.connect()
for cluster in (one, other):
    cluster.close()
    print(sum(any("after_trainer" in word for word in child.cmdline()) for child in psutil.Process().children()))
"""


@pytest.mark.thorough
@pytest.mark.rare
def test_what_ends_ray_after_the_trainer_stays_as_long_as_ray_does() -> None:
    done = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["1", "0"], done.stderr


TOO_SMALL = """
from lightrl_ray.cluster import Cluster
clusters = [Cluster(None, 1, {"CPU": 1, "GPU": gpus}) for gpus in (99, 0, 99)]
for cluster in clusters:
    try:
        cluster.connect()
    except RuntimeError as error:
        print(error)
for cluster in clusters:
    cluster.close()
"""


@pytest.mark.thorough
@pytest.mark.rare
def test_a_machine_that_is_too_small_says_so_to_every_engine() -> None:
    # in a process of its own, which has no connection yet
    done = subprocess.run([sys.executable, "-c", TOO_SMALL], capture_output=True, text=True, timeout=300, check=False)
    refusals = re.findall(r"1 times CPU 1, GPU 99 for an actor does not fit on this machine: Ray has CPU 1", done.stdout)
    assert len(refusals) == 2, done.stderr


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 actors, and TransformersEngine has all rows of a call in one slice .* set slice_rows"):
        RayEngine(TransformersEngine(), actors=2)
    with pytest.raises(ValueError, match=r"RayEngine needs actors >= 1 and timeout_s > 0, got actors=0, timeout_s=0"):
        RayEngine(TransformersEngine(), actors=0, timeout_s=0)
    with pytest.raises(ValueError, match=r"RayEngine needs resources >= 0, got {'GPU': -1}"):
        RayEngine(TransformersEngine(), resources={"GPU": -1})


def test_calls_in_the_wrong_order_say_so() -> None:
    engine = RayEngine(TransformersEngine())
    with pytest.raises(RuntimeError, match=r"RayEngine was asked before update_weights"):
        engine.submit([request(1)])
    with pytest.raises(RuntimeError, match=r"RayEngine.update_weights was called before start\(\)"):
        engine.update_weights(TrainerWeights(POLICY), 0)
    assert engine.results() == []
    engine.close()
