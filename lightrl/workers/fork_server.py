"""The process behind the workers of a reward, an environment or an engine: it loads it once, and forks a worker whenever it is asked.

It is started as a program of its own, without the training process's threads, devices and memory, so forking is safe and takes
milliseconds; it ends when the training process does, and its workers with it. Of lightrl it imports nothing that needs torch, unless the
part does.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pickle
import resource
import sys
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path

from lightrl.workers.calls import Performer, Servant, describe
from lightrl.workers.process_ends import end_with_parent, ending_with_parent, kill, only_this_process

FORK, WAIT = b"F", b"W"
"""Requests: a new worker (its end of a socket follows), and the exit status of a worker that has ended (its process number follows)."""
STATM = Path("/proc/self/statm")
MEGABYTE = 1 << 20
ENCODER = json.JSONEncoder(default=repr)


def serve(control: int) -> None:
    """Load the object that makes the calls, then answer requests to fork and to wait until the training process has ended.

    Args:
        control: file descriptor of a socket; first comes a pickled mapping with `modules`, `performer`, `memory_mb` and `noun`, then
            requests.
    """
    connection = Connection(control)
    setup = pickle.loads(connection.recv_bytes())
    try:
        # what it loads may take minutes, in which nobody reads the connection
        with ending_with_parent():
            _load_modules(setup["modules"], setup["noun"])
            performer: Performer | Servant = pickle.loads(setup["performer"])
    except BaseException as error:
        connection.send_bytes(describe(error).encode())
        return
    children: set[int] = set()
    try:
        connection.send_bytes(b"")
        while True:
            _obey(connection, performer, setup["memory_mb"], children)
    except (EOFError, OSError):
        for pid in children:
            kill(pid)
    # Python would take seconds to clear away what some parts import
    os._exit(0)


def _obey(connection: Connection, performer: Performer | Servant, memory_mb: int, children: set[int]) -> None:
    request = connection.recv_bytes()
    if request[:1] == WAIT:
        pid = int(request[1:])
        children.discard(pid)
        connection.send_bytes(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        return
    channel = recv_handle(connection)
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            connection.close()
            end_with_parent(server)
            _work(channel, performer, memory_mb)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(channel)
    children.add(pid)
    connection.send_bytes(str(pid).encode())


def _work(channel: int, performer: Performer | Servant, memory_mb: int) -> None:
    # a session of its own: the training process's Ctrl-C does not reach it, and whatever it starts is killed with it
    os.setsid()
    # torch and its like map gigabytes that they never touch, so the limit counts from here
    if memory_mb and STATM.exists():
        limit = int(STATM.read_text().split()[0]) * resource.getpagesize() + memory_mb * MEGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    connection = Connection(channel)
    if isinstance(performer, Servant):
        performer.serve(connection)
        os._exit(0)
    _answer_calls(connection, channel, performer)


def _answer_calls(connection: Connection, channel: int, performer: Performer) -> None:
    """The life of a worker: numbered calls come in pickled lists, each answer leaves as one line of JSON as soon as it is there."""
    while True:
        try:
            first, calls = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        for number, call in enumerate(calls, first):
            with only_this_process():
                answer = performer.perform(call)
            # what has eaten the memory is still there, so the next call gets a fresh worker
            leaves = answer.error is not None and answer.error.startswith("MemoryError")
            _write(channel, ENCODER.encode([number, answer.value, answer.error, answer.seconds, leaves]).encode() + b"\n")
            if leaves:
                os._exit(0)


def _write(channel: int, line: bytes) -> None:
    try:
        while line:
            line = line[os.write(channel, line) :]
    except OSError:
        os._exit(0)


def _load_modules(modules: Mapping[str, str | None], noun: str) -> None:
    """Import the modules that are needed, from their files where their names cannot be imported."""
    for name, file in modules.items():
        if name != "__main__":
            try:
                importlib.import_module(name)
                continue
            except ModuleNotFoundError as error:
                if file is None or error.name is None or not f"{name}.".startswith(f"{error.name}."):
                    raise
        if file is None:
            raise ImportError(f"module {name!r} has no file, so a worker process cannot load it: put the {noun} in a file of its own")
        _load_file(name, file, noun)


def _load_file(name: str, file: str, noun: str) -> None:
    # the script that started the run must not start it again, so it is not called __main__ while it is loaded
    spec = importlib.util.spec_from_file_location("__mp_main__" if name == "__main__" else name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} cannot be loaded from {file}: put the {noun} in a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules[spec.name] = module
    spec.loader.exec_module(module)
