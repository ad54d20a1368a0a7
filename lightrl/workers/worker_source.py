"""The workers of one program, each forked when it is needed by a server that is started, and replaced once it has fallen."""

from __future__ import annotations

import threading

from lightrl.workers.program import WorkerProgram
from lightrl.workers.worker_process import ForkServer, Worker


class WorkerSource:
    """Gives out workers, to several threads at once."""

    def __init__(self, program: WorkerProgram) -> None:
        """
        Args:
            program: of all workers.
        """
        self._program, self._lock = program, threading.Lock()
        self._server: ForkServer | None = None
        self._closed = False
        self._failure: RuntimeError | None = None

    def start(self) -> None:
        """Start the server, and do not wait for it.

        Raises:
            RuntimeError: the program cannot be pickled.
        """
        self._standing(None)

    def ready(self, worker: Worker | None) -> Worker:
        """The given worker if it still runs, else a new one.

        Raises:
            RuntimeError: the program cannot be pickled or loaded, or the workers were closed.
        """
        if worker is not None and worker.alive:
            return worker
        server = self._standing(None)
        try:
            return server.fork()
        except (EOFError, OSError):
            # something has killed the server, a memory watchdog perhaps: one more is tried
            return self._standing(server).fork()
        except RuntimeError as error:
            self._failure = error
            raise

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        with self._lock:
            if self._server is not None:
                self._server.close()

    def _standing(self, fallen: ForkServer | None) -> ForkServer:
        """The server; a new one if there is none, or if the given one has fallen."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the {self._program.noun}'s workers were closed")
            if self._failure is not None:
                raise self._failure
            if self._server is None or self._server is fallen:
                if fallen is not None:
                    fallen.close()
                self._server = ForkServer(self._program)
            return self._server
