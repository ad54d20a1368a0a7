"""Words of `vllm serve` that could execute code which a config names."""

import pytest
from lightrl_vllm import VLLMEngine


@pytest.mark.parametrize(
    "words",
    [
        ["--trust-remote-code"],
        ["--trust_remote_code"],
        ["--trust-rem"],
        ["--tool-parser-plugin", "x.py"],
        ["--middleware=evil.thing"],
        ["--max-model-len", "4096", "--worker-cls", "evil.Worker"],
        ["--config", "more.yaml"],
        ["-cc", "{}"],
    ],
)
def test_h1_words_that_may_execute_code_need_trust(words: list[str]) -> None:
    with pytest.raises(ValueError, match="trust_serve: true"):
        VLLMEngine(serve=words)
    assert VLLMEngine(serve=words, trust_serve=True).serve == words


def test_h1_words_that_execute_none_are_taken() -> None:
    words = ["--max-model-len", "4096", "--gpu_memory_utilization=0.3", "--seed", "-1", "-tp", "2"]
    assert VLLMEngine(serve=words).serve == words
