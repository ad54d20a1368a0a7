"""The server that forks workers, by itself."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

from lightrl.workers.worker_process import PROGRAM


def test_a_server_whose_run_is_over_before_it_has_loaded_ends_in_silence() -> None:
    """`fit --ckpt_path last` of a finished run printed the traceback of a broken pipe behind "Nothing was left to do"."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    with Connection(ours.detach()) as connection:
        setup = {"modules": {}, "performer": pickle.dumps(None), "memory_mb": None, "noun": "reward"}
        connection.send_bytes(pickle.dumps(setup))
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.decode()) == (0, "")
