"""The rank of a process among those of its machine, which the first one of a machine speaks by."""

from __future__ import annotations

import pytest

from lightrl.ranks import local_rank


@pytest.mark.parametrize(
    ("set_by", "rank"),
    [
        ({}, 0),
        ({"LOCAL_RANK": "3"}, 3),
        ({"SLURM_LOCALID": "2"}, 2),
        ({"LOCAL_RANK": "1", "SLURM_LOCALID": "0"}, 1),
        ({"LOCAL_RANK": ""}, 0),
    ],
)
def test_lightning_torchrun_and_srun_are_understood(set_by: dict[str, str], rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_by.items():
        monkeypatch.setenv(name, value)
    assert local_rank() == rank
