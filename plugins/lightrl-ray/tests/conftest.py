"""One cluster for all tests, in a process of its own, with a token of its own."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

HERE = str(Path(__file__).parent)
CLUSTER = """
import sys
from lightrl_ray.cluster import Cluster
Cluster(None, 8, {"CPU": 1}).connect()
import ray
print("at", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""
sys.path.insert(0, HERE)


@pytest.fixture(scope="session", autouse=True)
def _surroundings() -> Iterator[None]:
    """Actors find the engine of the tests, and no token is written into the home folder."""
    own = {"PYTHONPATH": HERE, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16), "OMP_NUM_THREADS": "1"}
    before, threads = dict(os.environ), torch.get_num_threads()
    os.environ.update(own)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def cluster(_surroundings: None) -> Iterator[str]:
    """The address of a running cluster for eight actors."""
    process = subprocess.Popen([sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    address = next((line.split()[1] for line in process.stdout if line.startswith("at ")), None)
    assert address is not None, "the cluster did not start"
    yield address
    process.stdin.close()
    process.wait(60)
