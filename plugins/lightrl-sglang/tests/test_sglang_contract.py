"""The contract of the engine, against a server that decodes with transformers."""

from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop.contract_tests import contract_cases, marked


def arguments(folder: Path) -> dict[str, Any]:
    """An engine at the server of the test."""
    return {"addresses": [(folder / "address").read_text()], "folder": str(folder / "weights"), "timeout_s": 60.0}


# a second for each check, which tries every field of a request again; a server of vLLM goes through the same
@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.parametrize("case", marked(contract_cases("lightrl_sglang", arguments={"SGLangEngine": arguments})), ids=str)
def test_contract(case: Any, server: Any, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(server.address)
    case.run(tmp_path)
