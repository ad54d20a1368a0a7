"""A program that becomes another one, and ends with the process that started it: `python follow_parent.py PARENT COMMAND...`.

It imports nothing of lightrl, so that this takes no time.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of `prctl(2)`: the signal that the kernel sends when the parent dies."""


def main(parent: int, *command: str) -> None:
    """Ask the kernel for a signal at the parent's death, and become the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the process that starts this server is gone")
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
