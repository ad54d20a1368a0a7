"""Segments of CUDA's memory may grow in every run, unless the user has said otherwise."""

from __future__ import annotations

import pytest

from lightrl.cli.run.trainer_verbs import let_segments_expand


@pytest.mark.parametrize(
    ("version", "name"),
    [("2.6.0", "PYTORCH_CUDA_ALLOC_CONF"), ("2.9.1+cu128", "PYTORCH_ALLOC_CONF"), ("2.13.0+cpu", "PYTORCH_ALLOC_CONF")],
)
def test_the_name_is_that_of_the_version(version: str, name: str) -> None:
    environment: dict[str, str] = {}
    let_segments_expand(environment, version)
    assert environment == {name: "expandable_segments:True"}


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_what_the_user_says_is_kept(name: str) -> None:
    environment = {name: "max_split_size_mb:64"}
    let_segments_expand(environment, "2.13.0")
    assert environment == {name: "max_split_size_mb:64"}
