"""A plugin that never ends its import or its hook is a record with an error, and the others load."""

from __future__ import annotations

import signal
import sys
import threading
import time
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from lightrl.hookspecs import GROUP
from lightrl.registry import loader
from lightrl.registry.known_packages import CORE
from lightrl.registry.time_limit import time_limit

HOOK = """
import time
from lightrl import hookimpl

@hookimpl
def lightrl_rewards():
{body}
"""

ENDLESS = {
    "a loop": (HOOK.format(body="    while True: pass"), "computed"),
    "a sleep": (HOOK.format(body="    time.sleep(1000)"), "asleep"),
    "a lock": (HOOK.format(body="    import threading\n    threading.Semaphore(0).acquire()"), "asleep"),
    "a socket": (HOOK.format(body="    import socket\n    pair = socket.socketpair()\n    pair[0].recv(1)"), "asleep"),
    "a loop that catches everything": (
        HOOK.format(body="    while True:\n        try:\n            time.sleep(0.01)\n        except Exception:\n            pass"),
        "asleep",
    ),
    "an import": ("while True: pass", "computed"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_plugin_is_a_record_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(loader, "LOADING_S", 0.5)
    source, why = ENDLESS[name]
    (tmp_path / "endless_plugin.py").write_text(source)
    handler = signal.getsignal(signal.SIGALRM)
    record = loader.load_plugin(EntryPoint("endless", "endless_plugin", GROUP))
    sys.modules.pop("endless_plugin", None)
    assert str(record.error).startswith("TimeoutError: ")
    assert why in str(record.error)
    assert "endless_plugin.py" in str(record.traceback)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_plugin_may_wait_for_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # it computes for less than the limit, and never sleeps for as long
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(loader, "LOADING_S", 0.4)
    work = """
    for _ in range(10):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        time.sleep(0.1)
    return []"""
    (tmp_path / "slow_plugin.py").write_text(HOOK.format(body=work))
    record = loader.load_plugin(EntryPoint("slow", "slow_plugin", GROUP))
    sys.modules.pop("slow_plugin", None)
    assert record.error is None


def test_the_core_is_loaded_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(seconds: float) -> None:
        raise AssertionError(f"a limit of {seconds} s")

    monkeypatch.setattr(loader, "time_limit", refused)
    own = next(entry for entry in entry_points(group=GROUP) if loader.distribution_of_entry(entry)[0] == CORE)
    assert loader.load_plugin(own).error is None


def test_a_limit_that_is_kept_changes_nothing() -> None:
    with time_limit(0.05):
        kept = sum(range(10))
    time.sleep(0.1)
    assert kept == 45


def test_another_thread_has_no_limit_and_no_error() -> None:
    done: list[bool] = []

    def work() -> None:
        with time_limit(0.01):
            time.sleep(0.05)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
