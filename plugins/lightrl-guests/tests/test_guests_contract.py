"""The contract of every class that this package registers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop import contract_tests
from openenv_server import dummy_server

URL: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def _server() -> Iterator[None]:
    with dummy_server() as (url, _):
        URL.append(url)
        yield


def on_the_server(folder: Path) -> dict[str, Any]:
    return {"url": URL[0], "action": {"number": "{completion}"}, "observation": "{said}"}


test_contract = contract_tests(
    "lightrl_guests", arguments={"OpenEnv": on_the_server, "TRLEnvironment": {"path": "lightrl_guests.higher_lower.HigherLower"}}
)
