"""A plugin that never ends its import or its hook is a record with an error, and the others load."""

from __future__ import annotations

import signal
import sys
import threading
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lightrl.hookspecs import GROUP
from lightrl.registry import loader
from lightrl.registry.time_limit import time_limit

HOOK = """
import time
from lightrl import hookimpl

@hookimpl
def lightrl_rewards():
{body}
"""

ENDLESS = {
    "a loop": HOOK.format(body="    while True: pass"),
    "a sleep": HOOK.format(body="    time.sleep(1000)"),
    "a loop that catches everything": HOOK.format(
        body="    while True:\n        try:\n            time.sleep(0.01)\n        except Exception:\n            pass"
    ),
    "an import": "while True: pass",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_plugin_is_a_record_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(loader, "LOADING_S", 0.3)
    (tmp_path / "endless_plugin.py").write_text(ENDLESS[name])
    started, handler = time.monotonic(), signal.getsignal(signal.SIGALRM)
    record = loader.load_plugin(EntryPoint("endless", "endless_plugin", GROUP))
    sys.modules.pop("endless_plugin", None)
    assert record.error == "TimeoutError: it took longer than 0.3 s"
    assert "endless_plugin.py" in str(record.traceback)
    assert time.monotonic() - started < 5
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


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
