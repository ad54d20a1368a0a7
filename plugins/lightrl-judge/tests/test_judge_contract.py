"""The contract of every class that this package registers, with a server that scores by what it is shown."""

import zlib
from pathlib import Path
from typing import Any

import pytest
from lightrl_workshop import contract_cases


def at(folder: Path) -> dict[str, Any]:
    return {"model": "m", "base_url": (folder / "url").read_text(), "retries": 0}


@pytest.mark.parametrize(
    "case", contract_cases("lightrl_judge", arguments=dict.fromkeys(("JudgeScore", "JudgePreference", "JudgePair"), at)), ids=str
)
def test_contract(case: Any, server: Any, tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any], number: int) -> str:
        shown = zlib.crc32(body["messages"][-1]["content"].encode())
        return f'{{"score": {shown % 11}, "winner": "{("A", "B", "tie")[shown % 3]}"}}'

    server.behaviour = behaviour
    (tmp_path / "url").write_text(server.url)
    case.run(tmp_path)
