"""A file appears whole or not at all: children kill themselves in the middle of writing it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lightrl.strategies import atomic


def child(act: Callable[[], None]) -> int:
    """Carry something out in a fork, which is waited for; its number."""
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def folder(at: Path, text: str) -> Path:
    at.mkdir()
    (at / "a").write_text(text)
    (at / "b").write_text(text)
    return at


def file(at: Path, text: str) -> Path:
    at.write_text(text)
    return at


def said(at: Path) -> set[str]:
    return {p.read_text() for p in at.iterdir()} if at.is_dir() else {at.read_text()}


@pytest.mark.parametrize("make", [file, folder])
@pytest.mark.parametrize("call", range(8))
def test_killed_at_any_call_leaves_the_old_or_the_new(call: int, make: Callable[[Path, str], Path], tmp_path: Path) -> None:
    place = make(tmp_path / "x.ckpt", "old")

    def act() -> None:
        left = call

        def counted(name: str) -> None:
            real = getattr(os, name)

            def wrapper(*args: object, **kwargs: object) -> object:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return real(*args, **kwargs)

            setattr(os, name, wrapper)

        written = make(atomic.partial(place), "new")
        for name in ("rename", "replace", "fsync", "unlink", "rmdir"):
            counted(name)
        atomic.publish(written, place)

    child(act)
    atomic.recover(tmp_path)
    assert said(place) in ({"old"}, {"new"})
    assert [p.name for p in tmp_path.iterdir()] == ["x.ckpt"]


@pytest.mark.parametrize("before", [file, folder])
@pytest.mark.parametrize("after", [file, folder])
def test_publishing_replaces_what_was_there(before: Callable[..., Path], after: Callable[..., Path], tmp_path: Path) -> None:
    place = before(tmp_path / "x.ckpt", "old")
    atomic.publish(after(atomic.partial(place), "new"), place)
    assert said(place) == {"new"}
    assert [p.name for p in tmp_path.iterdir()] == ["x.ckpt"]


def test_what_a_living_process_or_another_machine_writes_is_left_alone(tmp_path: Path) -> None:
    living = file(tmp_path / f"x.ckpt.partial-{socket.gethostname()}-{os.getppid()}", "")
    elsewhere = file(tmp_path / "x.ckpt.replaced-another-machine-1", "")
    dead = file(tmp_path / f"x.ckpt.partial-{socket.gethostname()}-{child(lambda: None)}", "")
    atomic.recover(tmp_path)
    assert (living.exists(), elsewhere.exists(), dead.exists()) == (True, True, False)


def test_a_removed_folder_does_not_come_back(tmp_path: Path) -> None:
    place = folder(tmp_path / "x.ckpt", "old")

    def act() -> None:
        os.rmdir = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        atomic.remove(place)

    child(act)
    assert not place.exists()
    assert list(tmp_path.iterdir()), "the child was killed in the middle"
    atomic.recover(tmp_path)
    assert not list(tmp_path.iterdir())
