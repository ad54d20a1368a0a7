"""A file appears whole or not at all: children kill themselves in the middle of writing it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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


NAMESPACE = ["unshare", "--pid", "--fork", "--map-root-user"]
RECOVER = "import sys; from pathlib import Path; from lightrl.strategies.atomic import recover; recover(Path(sys.argv[1]))"


def test_m2_another_container_leaves_alone_what_a_living_run_writes(tmp_path: Path) -> None:
    try:
        subprocess.run([*NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there are no namespaces of processes here")
    recover = [*NAMESPACE, sys.executable, "-c", RECOVER, str(tmp_path)]
    # a number that no process of a new namespace has
    assert os.getpid() > 50
    writing = file(atomic.partial(tmp_path / "x.ckpt"), "new")
    dead = file(tmp_path / f"y.ckpt.partial-{socket.gethostname()}-{child(lambda: None)}", "")
    subprocess.run(recover, check=True, timeout=300)
    assert writing.exists(), "this process is alive"
    assert dead.exists(), "nobody can tell whose it is while somebody writes in the folder"
    atomic.publish(writing, tmp_path / "x.ckpt")
    atomic.recover(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.ckpt"], "the only process that writes there knows"


def test_m2_a_killed_run_is_known_from_another_container(tmp_path: Path) -> None:
    def act() -> None:
        file(atomic.partial(tmp_path / "x.ckpt"), "new")
        # a child of its own outlives it, and holds nothing
        if os.fork() == 0:
            signal.alarm(60)
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

    child(act)
    assert list(tmp_path.iterdir())
    atomic.recover(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_had_the_same_relative_name_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in the folder `runs` of one place said that somebody writes in the folder `runs` of another place."""
    for name in ("one", "two"):
        (tmp_path / name / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "one")
    atomic.publish(file(atomic.partial(Path("runs/x.ckpt")), "whole"), Path("runs/x.ckpt"))
    script = "from pathlib import Path; from lightrl.strategies.atomic import partial; partial(Path('runs/y')); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        monkeypatch.chdir(tmp_path / "two")
        dead = file(Path(f"runs/x.ckpt.partial-{socket.gethostname()}-{child(lambda: None)}"), "")
        atomic.recover(Path("runs"))
        assert not dead.exists()
        other.communicate(b"\n")
