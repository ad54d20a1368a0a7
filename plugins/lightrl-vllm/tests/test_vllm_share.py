"""The share of the device that a server of vLLM gets, and what does not go with sharing one."""

from typing import Any

import pytest
from lightrl_servers.device_share import Room
from lightrl_vllm import VLLMEngine


def test_the_share_is_what_the_policy_leaves() -> None:
    # 1.5 billion parameters in float32 on 80 GB: 6 GB of weights, 18 GB of gradients and moments
    room = Room(total=80e9, in_use=6e9, to_come=18e9, weights=3e9)
    assert room.left == 76e9 - 24e9
    assert VLLMEngine.dialect.share_words(room, [], False) == ["--enable-sleep-mode", "--gpu-memory-utilization", "0.650"]
    assert VLLMEngine.dialect.share_words(room, ["--gpu_memory_utilization=0.6"], False) == ["--enable-sleep-mode"]
    assert Room(total=80e9, in_use=1e9, to_come=0.0, weights=3e9).left == 72e9, "at most 0.9 of it"


def test_a_share_that_is_too_large_is_refused_with_the_one_that_fits() -> None:
    room = Room(total=80e9, in_use=6e9, to_come=18e9, weights=3e9)
    with pytest.raises(ValueError, match=r"utilization 0\.9, which is 72\.0 GB, and of 80\.0 GB.* 52\.0 GB left.*name at most 0\.65"):
        VLLMEngine.dialect.share_words(room, ["--gpu-memory-utilization", "0.9"], False)


def test_a_device_without_room_is_refused() -> None:
    Room(total=24e9, in_use=6e9, to_come=11e9, weights=3e9).check()
    with pytest.raises(ValueError, match=r"no room for a server: of 24\.0 GB, 6\.0 GB are in use.*needs 5\.3 GB"):
        Room(total=24e9, in_use=6e9, to_come=12e9, weights=3e9).check()


ARGUMENTS: dict[str, dict[str, Any]] = {
    "colocate are for a server of the engine's own": {"addresses": ["http://a:1"], "colocate": True},
    "colocate has it share the trainer's: leave one out": {"devices": "0", "colocate": True},
}


@pytest.mark.parametrize("message", ARGUMENTS)
def test_what_does_not_go_with_it_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VLLMEngine(**ARGUMENTS[message])
