"""The contract of the engine, in actors of a running cluster."""

from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop.contract_tests import contract_cases, marked

from lightrl import TransformersEngine


def arguments(folder: Path) -> dict[str, Any]:
    """Two actors at the cluster of the test."""
    engine = TransformersEngine(max_new_tokens=6, slice_rows=2)
    return {"engine": engine, "actors": 2, "address": (folder / "address").read_text()}


# each check starts actors, which takes some seconds
@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.parametrize("case", marked(contract_cases("lightrl_ray", arguments={"RayEngine": arguments})), ids=str)
def test_contract(case: Any, cluster: str, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(cluster)
    case.run(tmp_path)
