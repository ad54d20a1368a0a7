"""Python files that come with a model are executed only where the config says so, and then it is said; nobody is asked."""

from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightrl import LoraPolicy, PretrainedPolicy, SavedAdapters, TinyPolicy
from lightrl.parts.value_model import ValueModel
from lightrl.policy.source import announce_code
from lightrl.rollout.hosting.policy_outline import PolicyOutline

CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

(Path({folder!r}) / "executed").touch()


class OwnConfig(LlamaConfig):
    model_type = "own-{name}"


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig


class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def with_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose model is of code in it, which leaves a file when it is executed; whoever asks at the keyboard is told yes."""
    folder = tmp_path / "model"
    TinyPolicy(hidden=16, layers=1, heads=2).build().save(folder)
    (folder / "own.py").write_text(CODE.format(folder=str(tmp_path), name=tmp_path.name.replace("_", "-")))
    config = json.loads((folder / "config.json").read_text())
    places = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel", "AutoModelForSequenceClassification": "own.OwnModel"}
    config |= {"model_type": f"own-{tmp_path.name.replace('_', '-')}", "auto_map": places}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer |= {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "own.OwnTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    monkeypatch.setattr(builtins, "input", lambda *_: "y")
    return folder


USES: dict[str, Callable[[str], Any]] = {
    "build": lambda path: PretrainedPolicy(path).build(),
    "build_lazy": lambda path: PretrainedPolicy(path).build_lazy(),
    "tokenizer": lambda path: PretrainedPolicy(path).tokenizer(),
    "outline": lambda path: PretrainedPolicy(path).outline(),
    "critic": lambda path: ValueModel(path).build(TinyPolicy(hidden=16, layers=1, heads=2).build()),
}


@pytest.mark.parametrize("use", USES)
def test_code_in_a_models_folder_is_not_executed_and_nobody_is_asked(with_code: Path, use: str) -> None:
    with pytest.raises(ValueError, match=r"not executed|custom code"):
        USES[use](str(with_code))
    assert not (with_code.parent / "executed").exists()


def test_code_that_is_trusted_is_executed_and_that_is_said(with_code: Path, caplog: pytest.LogCaptureFixture) -> None:
    announce_code.cache_clear()
    source = PretrainedPolicy(str(with_code), trust_remote_code=True)
    with caplog.at_level(logging.WARNING):
        policy = source.build()
    assert (with_code.parent / "executed").exists()
    assert type(policy.model).__name__ == "OwnModel"
    assert [record.getMessage() for record in caplog.records if "executed" in record.getMessage()] == [
        f"trust_remote_code is true: the Python files that come with the policy {str(with_code)!r} are executed"
    ]
    assert source.parameters() == sum(p.numel() for p in policy.parameters())
    assert type(source.build_lazy().model).__name__ == "OwnModel"


def test_an_engine_elsewhere_has_the_trusted_model(with_code: Path) -> None:
    policy = PretrainedPolicy(str(with_code), trust_remote_code=True).build()
    there = PolicyOutline.of(policy).build(policy.own_tensors(), torch.device("cpu"))
    assert type(there.model) is type(policy.model)
    assert torch.equal(there.model.lm_head.weight, policy.model.lm_head.weight)


def test_an_adapters_folder_imports_no_module_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, folder = TinyPolicy(hidden=16, layers=1, heads=2), tmp_path / "adapters"
    LoraPolicy(base, r=2).build().save(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    config |= {"megatron_config": {"tensor_model_parallel_size": 1}, "megatron_core": "named_by_adapters"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (tmp_path / "named_by_adapters.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="megatron_core"):
        SavedAdapters(base, str(folder)).build()
    assert not (tmp_path / "executed").exists()


def test_h1_kernels_of_the_hub_need_trust() -> None:
    with pytest.raises(ValueError, match="trust_remote_code"):
        PretrainedPolicy("a-folder", attention="owner/kernel")
    assert PretrainedPolicy("a-folder", attention="owner/kernel", trust_remote_code=True).attention == "owner/kernel"
