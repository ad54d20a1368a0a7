"""A server of the run's own: a program that is found on the path, started with what lightrl needs and ended with the run."""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lightrl import ApiKey
from lightrl_servers.server import ServerError

logger = logging.getLogger(__name__)

FOLLOW_PARENT = Path(__file__).with_name("follow_parent.py")
POLL_S = 0.2
HEALTH_S = 5.0
"""Seconds that an answer about its health may take; some servers sample a token for it."""
END_S = 15.0
"""Seconds that a server gets to end by itself."""
TAIL = 2000
"""Characters of the log in a message."""
READ = 1 << 16
HELD = 7
"""Characters at the end of what was read that are written with what follows: a key may begin there, of which eight are shown nowhere."""


@dataclass(frozen=True)
class Program:
    """The program of a kind of server, and what it is started with."""

    name: str
    """Looked for on the path; names the log too."""
    server: str
    """The name of what is to be installed."""
    title: str
    """The command without its arguments, for messages."""
    model: tuple[str, ...]
    """Words in front of the folder of the model."""
    words: tuple[str, ...]
    """Words that every server of the run's own is started with."""
    environment: Mapping[str, str]
    """Variables that it is started with."""
    key_variable: str | None
    """The variable in which it looks for its key; None: it takes one from its command line alone, where every user can read it."""
    safe: str
    """A pattern of options that execute no code which somebody names; argparse takes beginnings of others, such as `--trust-r`."""

    def check_words(self, words: Sequence[str], trusted: bool) -> None:
        """Refuse words that are not known to execute no code.

        Args:
            words: of a config.
            trusted: somebody has said that any may stand.

        Raises:
            ValueError: there are some.
        """
        options = [word for word in words if re.match("-+[^-0-9.]", word)]
        unknown = [word for word in options if not re.fullmatch(self.safe, word.partition("=")[0].replace("_", "-"))]
        if unknown and not trusted:
            raise ValueError(
                f"serve has {', '.join(map(repr, unknown))}, and words of `{self.title}` can name code to execute. Known not to: "
                f"{self.safe}. If you trust the others, say trust_serve: true"
            )


class OwnServer:
    """A process that serves a folder at a free port of this machine."""

    def __init__(self, program: Program, log: Path, key: ApiKey, devices: str | None) -> None:
        """The log gets what it prints, without the key; devices are its `CUDA_VISIBLE_DEVICES`, None: those of this process."""
        self.log, self._program, self._key, self._devices = log, program, key, devices
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: threading.Thread | None = None

    def start(self, folder: str, words: Sequence[str], limit_s: float) -> str:
        """Start it for a folder or hub id, with further words, and give its address once it answers; or a ServerError."""
        kind, program = self._program, shutil.which(self._program.name)
        if program is None:
            raise ServerError(
                f"there is no program named {kind.name} on the path. Install {kind.server} in an environment of its own and put its bin "
                "folder on the path, or start servers yourself and give model.engine.addresses"
            )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [program, *kind.model, folder, "--host", "127.0.0.1", "--port", str(port), *kind.words, *words]
        devices = {} if self._devices is None else {"CUDA_VISIBLE_DEVICES": self._devices}
        key = self._key.value()
        # it asks for the key that it finds there
        wanted = {kind.key_variable: key} if key and kind.key_variable else {}
        follow = [sys.executable, "-I", str(FOLLOW_PARENT), str(os.getpid()), *command]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # a session of its own, so that an interrupt of the run does not end it before the run
        self._process = subprocess.Popen(
            follow,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **kind.environment, **devices, **wanted},
            start_new_session=True,
        )
        self._writer = threading.Thread(
            target=_write, args=[self._process.stdout, self.log, self._key], name=f"log of {kind.server}", daemon=True
        )
        self._writer.start()
        self._wait(f"http://127.0.0.1:{port}", self._process, limit_s)
        return f"http://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        """Of its process; a ServerError if it was not started."""
        if self._process is None:
            raise ServerError(f"{self._program.title} was not started")
        return self._process.pid

    def complaint(self) -> str:
        """How the server ended, with the end of its log; empty while it runs."""
        if self._process is None or self._process.poll() is None:
            return ""
        self._wait_for_log()
        said = self.log.read_text()[-TAIL:].strip()
        return f"{self._program.title} has ended with status {self._process.returncode}; the end of {self.log}:\n{said}"

    def close(self) -> None:
        """End it, and every process that it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # it may have ended its own processes
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self._wait_for_log()

    def _wait_for_log(self) -> None:
        if self._writer is not None:
            # a process that it has left behind may keep the other end open
            self._writer.join(1.0)

    def _wait(self, address: str, process: subprocess.Popen[bytes], limit_s: float) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if complaint := self.complaint():
                raise ServerError(complaint)
            try:
                with opener.open(f"{address}/health", timeout=HEALTH_S):
                    return
            except OSError:
                time.sleep(POLL_S)
        raise ServerError(f"{self._program.title} did not answer within {limit_s:g} s: raise start_limit_s, or read {self.log}")


def _write(said: IO[bytes], log: Path, key: ApiKey) -> None:
    """Write what a process says into its log, as it comes and without the key."""
    decoder, held = codecs.getincrementaldecoder("utf-8")("replace"), ""
    with said, log.open("a") as out:
        while data := os.read(said.fileno(), READ):
            told = key.redact(held + decoder.decode(data))
            end = len(told) - (0 if told.endswith("\n") else HELD)
            held = told[max(end, 0) :]
            try:
                out.write(told[: max(end, 0)])
                out.flush()
            except OSError as error:
                # the process would stand still if nobody read on
                logger.warning("%s lacks what the server says now: %s", log, error)
        out.write(held)
