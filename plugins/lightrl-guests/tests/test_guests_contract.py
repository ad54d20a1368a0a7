"""The contract of every class that this package registers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightrl_guests import VerifiersEnvironment
from lightrl_workshop import contract_cases
from lightrl_workshop.contract_tests import Case
from openenv_server import dummy_server

URL: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def _server() -> Iterator[None]:
    with dummy_server() as (url, _):
        URL.append(url)
        yield


def on_the_server(folder: Path) -> dict[str, Any]:
    return {"url": URL[0], "action": {"number": "{completion}"}, "observation": "{said}"}


ARGUMENTS = {
    "OpenEnv": on_the_server,
    "TRLEnvironment": {"path": "lightrl_guests.higher_lower.HigherLower"},
    "VerifiersEnvironment": {"taskset": "planted_verifiers"},
}


@pytest.mark.parametrize("case", contract_cases("lightrl_guests", arguments=ARGUMENTS), ids=str)
def test_contract(case: Case, tmp_path: Path) -> None:
    if case.cls is VerifiersEnvironment:
        pytest.importorskip("verifiers")
    case.run(tmp_path)
