"""Rewards in worker processes: whatever one of them does, the others and the run go on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lightrl import Function, Prompt, RowReward
from lightrl.types import Outcome
from lightrl.workers import worker_process

V, A, E, T = Outcome.VALUE, Outcome.ABSTAINED, Outcome.ERROR, Outcome.TIMEOUT


def bad(name: str) -> Any:
    import bad_rewards

    return getattr(bad_rewards, name)


def test_a_worker_needs_no_torch_where_the_reward_needs_none(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"torch": Function("bad_rewards.has_torch"), "pid": Function("bad_rewards.process", workers=2)})
    scored = rewards.score(texts(["a"] * 40))
    assert scored.reward_parts["torch"].tolist() == [0.0] * 40
    assert os.getpid() not in scored.reward_parts["pid"].tolist()


def test_every_kind_of_answer_comes_back(reward_set: Any, texts: Any) -> None:
    scored = reward_set({"it": bad("Detached")()}).score(texts(["list", "none", "exit", "column", ""]))
    assert scored.outcomes["it"].tolist() == [V, A, E, V, V]
    assert scored.reward_parts["it"][0].tolist()[1:] == [1.0, 2.0]
    assert scored.reward_parts["it"][3, 2] == 0.25
    with pytest.raises(ValueError, match=r"row 0 .*'p0'.*'good'"):
        reward_set({"it": bad("Detached")()}).score(texts(["word"]))


@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("sleeps", T, "no answer within 1 s; its worker was killed"),
        ("crashes", E, "its worker process died: exit status 7"),
        ("raises", E, r"ArithmeticError: not my day \(.*bad_rewards.py:"),
        ("returns_nan", E, "it returned nan"),
    ],
)
def test_a_bad_row_fails_alone(name: str, outcome: Outcome, reason: str, reward_set: Any, texts: Any, caplog: Any) -> None:
    completions = [f"row {i}" for i in range(60)]
    expected = [outcome if bad("chosen")(text) else V for text in completions]
    assert 3 <= expected.count(outcome) <= 8
    rewards = reward_set({"it": Function(f"bad_rewards.{name}", **({"timeout_s": 1.0} if name == "sleeps" else {}))})
    scored = rewards.score(texts(completions))
    assert scored.outcomes["it"].tolist() == expected
    assert scored.scorable.tolist() == [e is V for e in expected]
    right = [bad("letters")(text) for text, kind in zip(completions, expected, strict=True) if kind is V]
    assert scored.reward_parts["it"][scored.scorable].tolist() == right
    first = completions[expected.index(outcome)]
    assert f"reward 'it' failed on {expected.count(outcome)} of 60 rows; first: prompt 'p{first.split()[1]}'" in caplog.text
    assert re.search(reason, caplog.text)


def test_what_eats_the_memory_gets_a_new_process(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"it": Function("bad_rewards.leaks", memory_mb=250, workers=1)})
    scored = rewards.score(texts(["ab"] * 20))
    failed = (scored.outcomes["it"] == E).tolist()
    assert 2 <= sum(failed) <= 5
    assert not any(a and b for a, b in pairwise(failed)), "the row after a failure has a fresh worker"


def test_a_process_that_died_unseen_is_replaced(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"pid": Function("bad_rewards.process", workers=1)})
    first = int(rewards.score(texts(["a"])).reward_parts["pid"][0])
    os.kill(first, signal.SIGKILL)
    time.sleep(0.2)
    scored = rewards.score(texts(["a"]))
    assert scored.outcomes["pid"].tolist() == [V]
    assert int(scored.reward_parts["pid"][0]) != first


def test_a_server_that_was_killed_is_replaced(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"server": Function("bad_rewards.server", workers=2)})
    first = int(rewards.score(texts(["a"])).reward_parts["server"][0])
    os.kill(first, signal.SIGKILL)
    time.sleep(0.2)
    scored = [rewards.score(texts(["a"] * 50)) for _ in range(3)][-1]
    assert scored.scorable.all()
    assert first not in scored.reward_parts["server"].tolist()


def test_a_reward_that_is_never_loaded_does_not_hang_the_run(reward_set: Any, texts: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(worker_process, "LOAD_S", 0.5)
    monkeypatch.setattr(worker_process, "CLOSE_TIMEOUT_S", 0.2)
    with pytest.raises(RuntimeError, match=r"Endless (.|\n)*0.5 s"):
        reward_set({"it": bad("Endless")()}).score(texts(["a"]))


def test_closing_ends_every_process_and_scoring_starts_them_again(reward_set: Any, texts: Any) -> None:
    rewards = reward_set({"pid": Function("bad_rewards.process", workers=2)})
    pids = {int(pid) for pid in rewards.score(texts(["a"] * 50)).reward_parts["pid"]}
    rewards.close()
    deadline = time.monotonic() + 5
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, pids))
    assert rewards.score(texts(["a"])).scorable.all()


def running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


class Local(RowReward):
    """Keeps what cannot be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = lambda text: len(text)

    def score(self, prompt: Prompt, completion: str) -> float:
        return float(self.rule(completion))


class Stateful(RowReward):
    """Keeps state, in processes."""

    def score(self, prompt: Prompt, completion: str) -> float:
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"seen": 1}


def test_what_cannot_run_in_a_process_is_refused_with_a_way_out(reward_set: Any, texts: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Local .*runs: inline"):
        reward_set({"it": Local()}).score(texts(["a"]))
    with pytest.raises(RuntimeError, match=r"Unloadable (.|\n)*no model file"):
        reward_set({"it": bad("Unloadable")()}).score(texts(["a"]))
    with pytest.raises(ValueError, match=r"'it' .*Stateful.*runs: inline"):
        reward_set({"it": Stateful()})
    with pytest.raises(ValueError, match="timeout_s"):
        Function("bad_rewards.letters", runs="inline", timeout_s=1.0)
    assert Function("bad_rewards.letters", runs="inline").runs == "inline"


INTERRUPTED = """
import signal, sys, torch
# a shell that runs tests in the background lets its children ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {folder!r})
from lightrl import Function
from lightrl.rewards.guarded_reward import place_of
from lightrl.rewards.row_call import Call
from lightrl import Prompt
pool = place_of(Function("bad_rewards.sleeps", timeout_s=600.0))
prompt = Prompt(id="p", text="?")
texts = [f"row {{i}}" for i in range(60)]
from bad_rewards import chosen
pool.submit([Call(prompt, t, {{}}) for t in texts if not chosen(t)]).result()
pending = pool.submit([Call(prompt, t, {{}}) for t in texts if chosen(t)])
print(pool._lines.source._server._process.pid, flush=True)
pending.result()
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_however_the_run_ends_no_process_is_left(by: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(INTERRUPTED.format(folder=str(Path(__file__).parent)))
    run = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert run.stdout is not None
    server = int(run.stdout.readline())
    workers = [int(p) for p in Path(f"/proc/{server}/task/{server}/children").read_text().split()]
    assert len(workers) == 2
    time.sleep(0.5)
    run.send_signal(by)
    try:
        assert run.wait(120) != 0
    finally:
        run.kill()
    deadline = time.monotonic() + 10
    while any(map(running, [server, *workers])) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, [server, *workers]))


SLOW = """
import os, pathlib, sys, time
if "torch" not in sys.modules:
    pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
    time.sleep(60)
def score(completion):
    return 1.0
"""
LOADING = """
import sys, torch
sys.path.insert(0, {folder!r})
from lightrl import Function, Prompt
from lightrl.rewards.guarded_reward import place_of
from lightrl.rewards.row_call import Call
pool = place_of(Function("slow_to_load.score"))
pool.submit([Call(Prompt(id="p", text="?"), "a", {{}})]).result()
"""


def test_low_the_process_behind_workers_ends_while_it_still_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_to_load.py").write_text(SLOW)
    (tmp_path / "run.py").write_text(LOADING.format(folder=str(tmp_path)))
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py")], stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert run.poll() is None
            time.sleep(0.05)
    finally:
        run.kill()
        run.wait()
    server, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 20
    while running(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(server)
