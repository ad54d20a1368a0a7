"""A program that waits for the end of the process that started it, and ends what is left of its Ray: `python after_trainer.py PARENT`.

Two of Ray's helpers try for a minute to tell a cluster of its end that is no longer there.
"""

import contextlib
import os
import sys
import time

import psutil

EVERY_S = 1.0
"""Seconds between two looks."""


def main(parent: int) -> None:
    """Wait, and end what Ray's raylet had started."""
    started = list[psutil.Process]()
    while os.getppid() == parent:
        with contextlib.suppress(psutil.NoSuchProcess):
            raylets = [process for process in psutil.Process(parent).children() if process.name() == "raylet"]
            # where the raylet has ended first, what it had started is what it was
            started = [process for raylet in raylets for process in raylet.children(recursive=True)] or started
        time.sleep(EVERY_S)
    for process in started:
        # another process with its number is left alone
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    main(int(sys.argv[1]))
