"""Running a program against its tests: who talks to whom, until when, and what counts.

    asserts   examiner (own sandbox, has the tests) <- socket -> candidate (own sandbox, has the program)
              examiner -> pipe -> here: the verdicts
    pairs     one sandbox per pair; the input goes in, the output comes out, and is compared here

The program has no way to the verdicts: it never shares a process, a namespace or a descriptor with what writes them.
"""

import json
import os
import selectors
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import Any

from lightrl_code.inside.sandbox_wire import Channel, Closed
from lightrl_code.sandbox import Sandbox

START_S = 20.0
"""Seconds in which a sandbox must be up; the program's own time begins afterwards."""
STARTED = b'{"started": true}'
MOST_VERDICTS = 16 * 1024 * 1024
"""Bytes of verdicts that are read; the examiner's own, so this bounds only broken tests."""


@dataclass(frozen=True)
class Task:
    """A program and what it is tested with."""

    sources: Sequence[str]
    """The program; of several ways to put it together, the first that is Python is taken."""
    tests: str | Sequence[str]
    """Python with asserts or a `check(candidate)`, or a list of asserts."""
    setup: str = ""
    """Trusted code whose names the tests may use."""
    entry_point: str | None = None
    """An expression for the candidate, such as `add` or `Solution().add`; None: the tests name what they use."""
    in_place: bool = False
    """The tests see the changes that the program makes to its arguments."""


@dataclass(frozen=True)
class Pair:
    """A run of the program as a script."""

    input: str
    """Its standard input."""
    output: str
    """The standard output that is expected; white space at line ends and at the end does not count."""


@dataclass(frozen=True)
class ScriptRun:
    """The outcome of a program that ran as a script."""

    output: str | None
    """Its standard output; None: it printed more than it may, or went on printing until its time was over."""
    status: int | None
    """Its exit status, negative for a signal; None: it was stopped."""
    seconds: float
    """Wall time that it took."""


def passed_asserts(task: Task, sandbox: Sandbox) -> float:
    """The fraction of the tests that the program passes.

    Raises:
        ValueError: the tests are no Python, have no assert, or want to give the program what cannot be given.
        RuntimeError: a sandbox did not start.
    """
    told = _verdicts(task, sandbox)
    broken = [message["broken"] for message in told if "broken" in message]
    if broken:
        raise ValueError(broken[0])
    total = sum(message.get("total", 0) for message in told)
    if not any("started" in message for message in told):
        raise RuntimeError(f"the sandbox did not start within {START_S:g} seconds, or ended at once: {told or 'it said nothing'}")
    return float(sum(message.get("passed", False) for message in told) / total)


def _verdicts(task: Task, sandbox: Sandbox) -> list[dict[str, Any]]:
    ours, verdicts = os.pipe()
    with (
        open(ours, "rb", buffering=0) as reading,  # noqa: PTH123 - a descriptor
        open(verdicts, "wb", buffering=0) as writing,  # noqa: PTH123
        _socket_pair() as (theirs, its),
        sandbox.run("candidate.py", "serve", str(its.fileno()), keep=[its.fileno()]),
        sandbox.run(
            "examiner.py", str(theirs.fileno()), str(verdicts), keep=[theirs.fileno(), verdicts], stdin=subprocess.PIPE
        ) as examiner,
    ):
        for end in (writing, its, theirs):
            end.close()
        _exchange(examiner, json.dumps(vars(task)).encode(), 0, time.monotonic() + START_S)
        said = _read_verdicts(reading, sandbox.limits.seconds)
    return [json.loads(line) for line in said.split(b"\n")[:-1]]


def passed_pairs(sources: Sequence[str], pairs: Sequence[Pair], sandbox: Sandbox) -> float:
    """The fraction of the pairs for which the program ends well and prints what is expected. RuntimeError: a sandbox did not start."""
    passed, left = 0, sandbox.limits.seconds
    for pair in pairs:
        done = run_script(sources, pair.input, sandbox, left)
        passed += done.status == 0 and _lines(done.output or "") == _lines(pair.output)
        left -= done.seconds
        if left <= 0:
            break
    return passed / len(pairs)


def run_script(sources: Sequence[str], text: str, sandbox: Sandbox, seconds: float) -> ScriptRun:
    """Run a program as a script.

    Args:
        sources: the program; of several ways to put it together, the first that is Python is taken.
        text: its standard input.
        sandbox: where it runs.
        seconds: wall time that it may take once its sandbox is up.

    Raises:
        RuntimeError: the sandbox did not start.
    """
    most = sandbox.limits.output_kb * 1024
    with _socket_pair() as (ours, its):
        arguments = ("candidate.py", "script", str(its.fileno()))
        with sandbox.run(*arguments, keep=[its.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            its.close()
            _hand_over(ours, sources)
            start = time.monotonic()
            said = _exchange(process, text.encode(), most, start + seconds)
            if said is None:
                return ScriptRun(None, None, time.monotonic() - start)
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, start + seconds - time.monotonic()))
            return ScriptRun(said.decode(errors="replace"), process.returncode, time.monotonic() - start)


def _hand_over(ours: socket.socket, sources: Sequence[str]) -> None:
    ours.settimeout(START_S)
    channel = Channel(ours)
    try:
        channel.receive()
        channel.send({"sources": list(sources)})
    except Closed as error:
        raise RuntimeError(f"the sandbox did not start within {START_S:g} seconds, or ended at once: {error}") from error


def _exchange(process: subprocess.Popen[bytes], text: bytes, most: int, deadline: float) -> bytes | None:
    """Write everything and read what comes, at the same time; None: more than `most` bytes came, or the time is over."""
    left, said, entry = memoryview(text), bytearray(), process.stdin
    if entry is None:
        raise RuntimeError("the process has no standard input")
    with selectors.DefaultSelector() as ready:
        os.set_blocking(entry.fileno(), False)
        ready.register(entry, selectors.EVENT_WRITE)
        if process.stdout is not None:
            ready.register(process.stdout, selectors.EVENT_READ)
        while ready.get_map():
            events = ready.select(max(0.0, deadline - time.monotonic()))
            if not events:
                return None
            for key, _ in events:
                if key.fileobj is entry:
                    left = _written(entry.fileno(), left)
                    if not left:
                        ready.unregister(entry)
                        entry.close()
                    continue
                part = os.read(key.fd, 1 << 16)
                said += part
                if len(said) > most:
                    return None
                if not part:
                    ready.unregister(key.fileobj)
    return bytes(said)


def _written(descriptor: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(descriptor, left[: 1 << 16]) :] if left else left
    except BrokenPipeError:
        # it did not want its input
        return left[:0]


def _read_verdicts(stream: FileIO, seconds: float) -> bytes:
    """The messages of the examiner, until it ends or the program's time is over, which begins when the examiner says so."""
    said, deadline, started = bytearray(), time.monotonic() + START_S, False
    with selectors.DefaultSelector() as ready:
        ready.register(stream, selectors.EVENT_READ)
        while len(said) < MOST_VERDICTS and ready.select(max(0.0, deadline - time.monotonic())):
            part = os.read(stream.fileno(), 1 << 16)
            if not part:
                break
            said += part
            if not started and STARTED in said:
                started, deadline = True, time.monotonic() + seconds
    return bytes(said)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


@contextmanager
def _socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    try:
        yield one, other
    finally:
        one.close()
        other.close()
