"""The folder of the tests on the import path: planted classes are named by their paths, in workers too; a server of the real OpenEnv."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def real_openenv() -> Iterator[str]:
    """The url of a server with room for two sessions; OPENENV_PYTHON is a Python that has `openenv`, if this one has not."""
    python = os.environ.get("OPENENV_PYTHON") or (sys.executable if importlib.util.find_spec("openenv") else None)
    if python is None:
        pytest.skip("OpenEnv is not installed, and OPENENV_PYTHON names no Python that has it")
    server = subprocess.Popen([python, str(HERE / "real_openenv.py"), "--sessions", "2"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
