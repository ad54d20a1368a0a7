"""Sandboxes: where a program runs, and what it can reach from there."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightrl_code.seccomp import program

INSIDE = Path(__file__).parent / "inside"
"""The scripts that run in there."""
# sets and dictionaries of text have one order, so that a program's output is the same in every run
ENVIRONMENT = {"PYTHONHASHSEED": "0"}
FLAGS = ["-s", "-S", "-B", "-X", "utf8"]
MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """The limits of one run."""

    seconds: float = 10.0
    """Wall time of the program; a little more of processor time, in which its start is counted."""
    memory_mb: int = 512
    """Address space in MiB."""
    disk_mb: int = 16
    """Files in MiB, all together; in memory, gone with the sandbox."""
    output_kb: int = 1024
    """Standard output in KiB that is read before the program is stopped."""

    def resources(self) -> dict[str, int]:
        """The limits that the process sets for itself before any foreign code."""
        return {
            "RLIMIT_AS": self.memory_mb * MIB,
            "RLIMIT_CPU": int(self.seconds) + 2,
            "RLIMIT_FSIZE": self.disk_mb * MIB,
            "RLIMIT_NOFILE": 64,
            "RLIMIT_CORE": 0,
        }


class Sandbox(ABC):
    """Starts Python scripts of ours with foreign code in them."""

    def __init__(self, limits: Limits) -> None:
        """
        Args:
            limits: of every run.
        """
        self.limits = limits

    @contextmanager
    def run(self, script: str, *arguments: str, keep: Sequence[int] = (), **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A running script, which is killed with all it started at the end of the block.

        Args:
            script: its name in `INSIDE`.
            *arguments: before the limits, which come last.
            keep: file descriptors that it inherits.
            **streams: `stdin`, `stdout` as of `Popen`; closed by default.
        """
        with ExitStack() as cleanup:
            command, inherited, folder = self._command(script, cleanup)
            process = subprocess.Popen(
                [*command, *arguments, json.dumps(self._resources())],
                pass_fds=[*keep, *inherited],
                cwd=folder,
                env=ENVIRONMENT,
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams},
            )
            cleanup.callback(_end, process)
            yield process

    def _resources(self) -> dict[str, int]:
        return self.limits.resources()

    @abstractmethod
    def _command(self, script: str, cleanup: ExitStack) -> tuple[list[str], list[int], str]:
        """The command without its arguments, descriptors it inherits, and the folder it starts in."""


class Bubblewrap(Sandbox):
    """Namespaces of its own by bubblewrap: no network, no other process, nothing to read but Python, nothing to write but a small /tmp.

    A filter of system calls forbids further processes; threads are allowed.
    """

    def __init__(self, limits: Limits) -> None:
        """
        Args:
            limits: of every run.

        Raises:
            ValueError: there is no bubblewrap, or the kernel does not let it work; the message says what it said.
        """
        super().__init__(limits)
        found = shutil.which("bwrap")
        if found is None:
            raise ValueError("there is no bubblewrap (bwrap) on the path, which keeps programs in: apt-get install bubblewrap")
        self._arguments = [found, *_namespaces(), *_files(limits.disk_mb)]
        self._filter = program()
        self._try()

    def _resources(self) -> dict[str, int]:
        # threads; the namespace has a count of its own. The kernel does not hold root to it, hence also the filter
        return {**super()._resources(), "RLIMIT_NPROC": 64}

    def _command(self, script: str, cleanup: ExitStack) -> tuple[list[str], list[int], str]:
        reading = self._filter_pipe(cleanup)
        python = [_python(), *FLAGS, f"/harness/{script}"]
        return [*self._arguments, "--seccomp", str(reading), *python], [reading], "/"

    def _filter_pipe(self, cleanup: ExitStack) -> int:
        reading, writing = os.pipe()
        cleanup.callback(os.close, reading)
        os.write(writing, self._filter)
        os.close(writing)
        return reading

    def _try(self) -> None:
        with ExitStack() as cleanup:
            reading = self._filter_pipe(cleanup)
            command = [*self._arguments, "--seccomp", str(reading), _python(), *FLAGS, "-c", "import json, socket"]
            try:
                tried = subprocess.run(command, pass_fds=[reading], env=ENVIRONMENT, capture_output=True, text=True, timeout=30)
            except subprocess.TimeoutExpired as error:
                raise ValueError("bubblewrap does not start within 30 seconds on this machine") from error
        if tried.returncode != 0:
            said = (tried.stderr or "nothing").strip().splitlines()[-1]
            raise ValueError(
                f"bubblewrap does not work on this machine, it said: {said}. A container or a kernel may refuse user namespaces to "
                "unprivileged users (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
            )


class Unsafe(Sandbox):
    """No sandbox at all: a process of the same user, with limits on its own resources."""

    def _command(self, script: str, cleanup: ExitStack) -> tuple[list[str], list[int], str]:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="lightrl-code-", ignore_cleanup_errors=True))
        return [_python(), *FLAGS, str(INSIDE / script)], [], folder


def _end(process: subprocess.Popen[bytes]) -> None:
    # the program is never asked to leave: SIGKILL reaches the whole group, and the namespace dies with its first process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


def _python() -> str:
    return str(Path(sys.executable).resolve())


def _namespaces() -> list[str]:
    nobody = ["--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    return ["--unshare-user", "--unshare-all", *nobody, "--cap-drop", "ALL", "--die-with-parent", "--new-session"]


def _files(disk_mb: int) -> list[str]:
    links = [part for name in ("/lib", "/lib32", "/lib64") for part in _system_folder(Path(name))]
    bound = [part for path in _readable() for part in ("--ro-bind", path, path)]
    hidden = [part for path in _packages() for part in ("--size", "4096", "--tmpfs", path, "--remount-ro", path)]
    own = ["--ro-bind", str(INSIDE), "/harness", "--size", str(disk_mb * MIB), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*links, *bound, *hidden, *own, "--remount-ro", "/"]


def _readable() -> list[str]:
    """Python itself: the executable, its standard library, its shared libraries, and the system's."""
    shared = Path(sysconfig.get_config_var("LIBDIR") or "/nowhere", str(sysconfig.get_config_var("INSTSONAME")))
    # an installation such as conda's has libraries of its own, and one that was moved its loader too
    libraries = [*map(Path, ("/usr/lib", "/usr/lib32", "/usr/lib64")), *(Path(sys.base_prefix, name) for name in ("lib", "lib64")), shared]
    wanted = [*libraries, Path(_python()), _stdlib("stdlib"), _stdlib("platstdlib")]
    found = dict.fromkeys(str(path) for path in wanted if path.exists())
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def _stdlib(name: str) -> Path:
    # of the installation, not of the virtual environment
    base = {"installed_base": sys.base_prefix, "base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    return Path(sysconfig.get_path(name, vars={**base, "installed_platbase": sys.base_exec_prefix}))


def _packages() -> list[str]:
    found = [_stdlib("stdlib") / name for name in ("site-packages", "dist-packages")] + [Path("/usr/lib/python3/dist-packages")]
    return [str(path) for path in found if path.is_dir()]


def _system_folder(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []
