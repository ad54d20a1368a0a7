import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lightrl.policy.source import PretrainedPolicy
from lightrl.types import Prompt

SCRIPT = Path(__file__).parents[2] / "examples" / "make_tiny_qwen.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_tiny_qwen", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_folder_is_a_policy_with_chat_and_eos(example: ModuleType, tmp_path: Path) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"question": f"How many eggs are {n} eggs and {n + 1} more?"}) + "\n" for n in range(50)))
    for name in ("one", "two"):
        example.main([str(tmp_path / name), "--text", str(text), "--field", "question", "--size", "test"])
    policy, again = (PretrainedPolicy(str(tmp_path / name)).build() for name in ("one", "two"))
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), again.parameters(), strict=True))
    tokenizer = policy.tokenizer
    assert policy.eos_token_ids == {tokenizer.convert_tokens_to_ids("<|im_end|>")}
    assert tokenizer.pad_token_id not in policy.eos_token_ids
    ids = policy.encode(Prompt(id="a", messages=({"role": "user", "content": "How many eggs?"},)))
    assert tokenizer.decode(ids) == "<|im_start|>user\nHow many eggs?<|im_end|>\n<|im_start|>assistant\n"
    unusual = "  two  spaces, 1234 — é 🙂\n\n"
    assert policy.decode(tokenizer.encode(unusual)) == unusual
    assert max(ids) < policy.model.config.vocab_size == len(tokenizer)


def test_the_standard_size_is_about_fifteen_million(example: ModuleType) -> None:
    size = example.SIZES["15m"]
    with torch.device("meta"):
        tokenizer = type("Tokenizer", (), {"__len__": lambda self: size.vocabulary, "eos_token_id": 2, "pad_token_id": 0})()
        assert 14e6 < example.build_model(tokenizer, size, 0).num_parameters() < 16e6


def test_a_missing_field_is_named(example: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text('{"answer": "a"}\n')
    with pytest.raises(SystemExit, match=r"'question'.*answer"):
        example.main([str(tmp_path / "out"), "--text", str(tmp_path / "text.jsonl"), "--field", "question", "--size", "test"])
