"""Each difference between versions of packages, in both forms whatever is installed; and the refusal of what does not run."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from transformers import cache_utils

from lightrl import TinyPolicy, versions
from lightrl.cli import main
from lightrl.versions import (
    cache_argument,
    complaint,
    cuda_memory_variable,
    layers_without_keys,
    recompute_activations,
    recomputes_activations,
)


def test_a_forward_may_name_its_cache_as_before_or_since_transformers_5_24() -> None:
    assert cache_argument(lambda input_ids, cache=None: None) == "cache"
    assert cache_argument(lambda input_ids, past_key_values=None: None) == "past_key_values"
    assert cache_argument(lambda input_ids, cache_params=None: None) is None


def test_a_cache_may_have_layers_that_keep_nothing_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing: ...

    monkeypatch.setattr(cache_utils, "DummyLayer", Nothing, raising=False)
    assert layers_without_keys() == (Nothing,)
    monkeypatch.delattr(cache_utils, "DummyLayer")
    assert layers_without_keys() == ()


class Before:
    is_gradient_checkpointing = False

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: dict[str, Any]) -> None:
        self.is_gradient_checkpointing = gradient_checkpointing_kwargs == {"use_reentrant": False}


class Since:
    is_activation_checkpointing = False

    def activation_checkpointing_enable(self, activation_checkpointing_kwargs: dict[str, Any]) -> None:
        self.is_activation_checkpointing = activation_checkpointing_kwargs == {"use_reentrant": False}


@pytest.mark.parametrize("cls", [Before, Since])
def test_activations_are_recomputed_under_both_names(cls: type[Any]) -> None:
    model = cls()
    assert not recomputes_activations(model)
    recompute_activations(model)
    assert recomputes_activations(model)
    assert not recomputes_activations(object())


@pytest.mark.parametrize(
    ("version", "name"),
    [("2.6.0", "PYTORCH_CUDA_ALLOC_CONF"), ("2.8.1a0+nv", "PYTORCH_CUDA_ALLOC_CONF"), ("2.9.1+cu128", "PYTORCH_ALLOC_CONF")],
)
def test_the_variable_of_cuda_memory_is_that_of_the_torch(version: str, name: str) -> None:
    assert cuda_memory_variable(version) == name


@pytest.mark.parametrize(
    ("needed", "found", "runs"),
    [
        ("transformers>=5.6", "5.6.0", True),
        ("transformers>=5.6", "5.25.0.dev0", True),
        ("transformers>=5.6", "4.57.1", False),
        ("transformers>=5.6,!=5.14.0", "5.14.0", False),
        ("torch>=2.6", "2.6.0a0+nv24.12", True),
        ("torch>=2.6", "2.11.0+cu130", True),
        ("jsonargparse[signatures]<5,>=4.53", "5.0.0", False),
        ("deepspeed>=0.19.8; sys_platform == 'another'", "0.1", True),
        ("ray>=2.60; extra == 'full'", "2.1", True),
        ("torch>=2.6", None, True),
    ],
)
def test_a_version_that_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch, needed: str, found: str | None, runs: bool) -> None:
    monkeypatch.setattr(versions, "installed_version", lambda _: found)
    said = complaint(iter([("lightrl-core", needed)]))
    if runs:
        assert said is None
    else:
        assert said is not None
        first, last = said.splitlines()
        assert "lightrl-core" in first
        assert f" {found};" in first
        assert last.startswith("Type: pip install '")


@pytest.mark.parametrize("verb", ["fit", "check", "generate", "export"])
def test_a_run_is_refused_by_name_when_it_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    there = versions.installed_version
    monkeypatch.setattr(versions, "installed_version", lambda name: "4.57.1" if name == "transformers" else there(name))
    assert main([verb, "--config", "none.yaml"]) == 2
    said = capsys.readouterr().err
    assert "lightrl-core does not run with transformers 4.57.1" in said
    assert said.count("'transformers") == 1
    assert main(["--version"]) == 0


def test_requirements_of_plugins_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "requires", lambda name: ["pytest>=9000"])
    said = versions.refused_versions(["lightrl-own", "lightrl-own"])
    assert said is not None
    assert said.count("lightrl-own") == 1


def test_asking_whether_activations_are_recomputed_warns_of_nothing() -> None:
    """transformers 5.23 warns where the name from before is read, which every run did."""
    model = TinyPolicy(hidden=16, layers=1, heads=2).build().model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not recomputes_activations(model)
        recompute_activations(model)
        assert recomputes_activations(model)
