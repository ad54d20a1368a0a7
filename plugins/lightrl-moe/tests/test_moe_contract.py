"""The contract of every class that this package registers."""

from pathlib import Path

from lightrl_moe import TinyMixture
from lightrl_workshop import contract_tests


def arguments(folder: Path) -> dict[str, object]:
    TinyMixture(hidden=16, layers=1, heads=2).build().save(folder)
    return {"path": str(folder)}


test_contract = contract_tests("lightrl_moe", arguments={"PretrainedMixture": arguments})
