"""Episodes in their places: whatever one of them does, the others go on as if it had not been there."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightrl_workshop import rollouts_with

from lightrl import Environment, Prompt, Reply, SingleTurn, TinyPolicy, TransformersEngine
from lightrl.environments.episode_host import EpisodeHost

WELL = "nothing"


def bad(name: str) -> Any:
    import bad_environments

    return getattr(bad_environments, name)


def without_time(answers: list[list[Any]]) -> list[list[Any]]:
    return [[(a.said, a.reply, a.error, a.late) for a in own] for own in answers]


@pytest.mark.parametrize("name", ["Counting", "CountingInline"])
@pytest.mark.parametrize(
    ("fault", "at", "reason"),
    [
        ("raises at begin", 0, r"ArithmeticError: not my day \(.*bad_environments.py:"),
        ("raises at turn 2", 2, "ArithmeticError: not my day"),
        ("leaves at turn 1", 1, "SystemExit: gone"),
        ("nan at turn 2", 2, r"reply\(\).reward is nan, expected a finite number"),
        ("huge at turn 1", 1, "10,000,000 characters, and at most 1,000,000"),
        ("silent at turn 3", 3, "told the policy nothing"),
        ("text at turn 1", 1, r"returned str 'hello', expected a Reply\(said, reward, done, state, counts, extras\)"),
    ],
)
def test_a_failure_is_told_and_stays_alone(name: str, fault: str, at: int, reason: str, hosted: Any, play: Any) -> None:
    alone = play(hosted(bad(name)()), [WELL] * 4, 4)
    answers = play(hosted(bad(name)()), [WELL, fault, WELL, fault], 4)
    for own in (answers[1], answers[3]):
        assert len(own) == at + 1
        assert re.search(reason, own[-1].error)
        assert not own[-1].late
        assert own[-1].reply is None
        assert own[-1].said is None
        assert all(answer.error is None for answer in own[:-1])
    assert without_time(answers)[::2] == without_time(alone)[::2]
    assert alone[0][-1].reply.done


@pytest.mark.parametrize(
    ("fault", "at", "late", "reason"),
    [
        ("hangs at begin", 0, True, "no answer within 0.5 s; its worker was killed"),
        ("hangs at turn 2", 2, True, "no answer within 0.5 s; its worker was killed"),
        ("dies at turn 3", 3, False, "its worker process died: exit status 7"),
        ("eats at turn 1", 1, False, "MemoryError"),
    ],
)
def test_whoever_loses_its_worker_by_another_is_brought_to_the_same_point(
    fault: str, at: int, late: bool, reason: str, hosted: Any, play: Any
) -> None:
    limits = {"timeout_s": 0.5, "memory_mb": 200}
    alone = play(hosted(bad("CountingInline")()), [WELL] * 7, 4)
    answers = play(hosted(bad("Counting")(**limits)), [WELL, WELL, WELL, fault, WELL, WELL, WELL], 4)
    assert answers[3][at].error is not None
    assert reason in answers[3][at].error
    assert answers[3][at].late is late
    assert len(answers[3]) == at + 1
    others = [0, 1, 2, 4, 5, 6]
    assert [without_time(answers)[i] for i in others] == [without_time(alone)[i] for i in others]


def test_an_episode_that_answers_something_else_when_repeated_has_failed(hosted: Any, play: Any) -> None:
    answers = play(hosted(bad("Forgetful")(workers=1)), [WELL, "dies at turn 2", WELL], 4)
    assert [len(own) for own in answers] == [4, 3, 3]
    assert "a function of the prompt, the seed and what the policy said" in answers[2][-1].error


def test_an_episode_stays_with_its_worker_and_workers_need_no_torch(hosted: Any, play: Any) -> None:
    host = hosted(bad("Counting")(workers=2))
    answers = play(host, ["where at turn 1"] * 6, 1)
    said = [own[1].reply.said for own in answers]
    assert {text.partition(" ")[0] for text in said} == {"False"}
    pids = [int(text.partition(" ")[2]) for text in said]
    assert pids == pids[:2] * 3
    assert len({*pids, os.getpid()}) == 3


@pytest.mark.parametrize("name", ["Counting", "CountingInline"])
def test_every_episode_has_random_numbers_of_its_own(name: str, hosted: Any, play: Any) -> None:
    random.seed(5)
    np.random.seed(5)
    np.random.randn()
    expected = random.random(), np.random.randn(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    np.random.randn()
    answers = without_time(play(hosted(bad(name)()), [WELL, "reseeds at turn 1", WELL], 3))
    assert (random.random(), np.random.randn(), np.random.random()) == expected
    assert answers[0] == without_time(play(hosted(bad(name)()), [WELL], 3))[0]
    assert answers[0][0] != answers[2][0], "another seed, another number"


def test_processes_that_an_episode_leaves_behind_end_with_its_worker(hosted: Any, play: Any) -> None:
    host = hosted(bad("Counting")(workers=1))
    pid = play(host, ["leaks at turn 1"], 1)[0][1].reply.state["pid"]
    assert running(pid)
    host.close()
    deadline = time.monotonic() + 5
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(pid)


def running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("runs", ["process", "inline"])
def test_an_episode_is_ended_once_and_what_that_raises_is_logged(runs: str, hosted: Any, play: Any, tmp_path: Path, caplog: Any) -> None:
    environment = bad("Ending")(str(tmp_path / "ended"))
    environment.runs = runs
    host = hosted(environment)
    host.begin([(i, Prompt(id="p", text=text), 1) for i, text in enumerate(["well", "breaks", "well"])]).result()
    host.end([0, 1])
    host.end([0, 7])
    assert [a.reply.said for a in host.reply([(2, "x")]).result()] == ["go"]
    assert host.reply([(0, "x")]).result()[0].error == "the episode has failed before, or was never begun"
    deadline = time.monotonic() + 5
    while "1 episodes" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "end() of an environment failed in 1 episodes; first: ArithmeticError: no end" in caplog.text
    assert (tmp_path / "ended").read_text() == "ended\n"


class Local(Environment):
    """Keeps what cannot be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = lambda text: Reply(text)

    def begin(self, prompt: Prompt, seed: int) -> str:
        return "go"

    def reply(self, completion: str) -> Reply:
        return self.rule(completion)


def test_what_cannot_run_is_refused_with_a_way_out(hosted: Any) -> None:
    with pytest.raises(RuntimeError, match=r'Local .*runs = "inline"'):
        hosted(Local()).begin([(0, Prompt(id="p", text="?"), 1)]).result()
    odd = Local()
    odd.runs = "async"
    with pytest.raises(ValueError, match=r"Local runs 'async'.*AsyncEnvironment"):
        EpisodeHost(odd)
    with pytest.raises(ValueError, match="same episode"):
        hosted(SingleTurn()).reply([(0, "a"), (0, "b")])


def test_an_environment_of_a_file_that_cannot_be_imported_is_loaded_from_it(hosted: Any, play: Any, tmp_path: Path) -> None:
    import importlib.util
    import sys

    file = tmp_path / "somewhere.py"
    file.write_text(
        "from lightrl import Environment, Reply\n"
        "class Echo(Environment):\n"
        "    def begin(self, prompt, seed):\n        return prompt.text\n"
        "    def reply(self, completion):\n        return Reply(completion + '!')\n"
    )
    spec = importlib.util.spec_from_file_location("nowhere_on_the_path", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert play(hosted(module.Echo(workers=1)), ["a", "b"], 1)[1][1].reply.said == "x!"


def test_the_budget_counts_failed_episodes(hosted: Any) -> None:
    host = hosted(bad("CountingInline")(max_error_rate=0.5, error_window=4))
    host.budget.add([None, "prompt 'a': broken", "prompt 'b': broken"])
    assert host.budget.spent() is None
    host.budget.add(["prompt 'c': broken"])
    assert "failed on 3 of the last 4 episodes (more than 2 are not allowed)" in host.budget.spent()


@pytest.mark.parametrize("runs", ["process", "inline"])
def test_closing_ends_the_episodes_that_are_open_and_a_host_opens_again(runs: str, hosted: Any, tmp_path: Path) -> None:
    environment = bad("Ending")(str(tmp_path / "ended"))
    environment.runs = runs
    host = hosted(environment)
    host.begin([(i, Prompt(id="p", text="well"), 1) for i in range(3)]).result()
    host.end([1])
    host.close()
    assert (tmp_path / "ended").read_text() == "ended\n" * 3
    assert host.reply([(0, "x")]).result()[0].error == "the episode has failed before, or was never begun"
    assert host.begin([(0, Prompt(id="p", text="well"), 1)]).result()[0].said == "go"


class Opens(Environment):
    """Opens with what the prompt's column says."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> Any:
        return prompt.columns["opening"]

    def reply(self, completion: str) -> Reply:
        return Reply(done=True)


@pytest.mark.parametrize("name", ["Counting", "CountingInline"])
@pytest.mark.parametrize("at", ["begin", "turn 1"])
def test_low_an_interrupt_of_an_environments_own_fails_its_episode_without_a_traceback(
    name: str, at: str, hosted: Any, play: Any, capfd: Any
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    answers = play(hosted(bad(name)()), [WELL, f"interrupts at {at}", WELL], 4)
    assert re.fullmatch(r"KeyboardInterrupt \(.*bad_environments.py:\d+\)", answers[1][-1].error)
    assert answers[0][-1].reply.done
    assert answers[2][-1].reply.done
    assert capfd.readouterr().err == ""
    assert signal.getsignal(signal.SIGINT) is handler


def test_low_an_opening_that_cannot_be_used_fails_its_episode_alone() -> None:
    openings = ["1=", "", "x" * 5000, [{"role": "user", "content": "1="}]]
    prompts = [Prompt(id=str(i), text="?", columns={"opening": said}) for i, said in enumerate(openings)]
    policy = TinyPolicy(hidden=16, layers=1).build()
    rollout = rollouts_with(policy, TransformersEngine(max_new_tokens=4), Opens()).rollout(prompts, 1)
    failures = [episode.failure for episode in rollout.episodes]
    assert failures[0] is None
    assert all("its opening cannot be used" in str(failure) for failure in failures[1:])
