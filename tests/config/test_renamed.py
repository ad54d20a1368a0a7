"""Names of before are refused, and the error says the name of today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lightrl_workshop import quiet_trainer

from lightrl.callbacks.resume_report import ResumeReport
from lightrl.config.errors import LINES

OLD = {
    "argument of a part": (
        ["--model.algorithm", "DAPO", "--model.algorithm.sampler.uninformative", "drop"],
        "model.algorithm.sampler.uninformative",
        "'zero_variance'",
    ),
    "argument of a callback": (
        ["--trainer.callbacks", "[{class_path: Alarms, init_args: {equal_groups: 0.9}}]"], "trainer.callbacks", "'zero_variance'",
    ),
    "module": (["--model", "lightrl.modules.policy_optimization.PolicyOptimization"], "model", "write 'PolicyOptimization'"),
    "part": (["--model.engine", "lightrl.plugins.TransformersEngine"], "model.engine", "write 'TransformersEngine'"),
    "callback": (["--trainer.callbacks", "[lightrl.callbacks.export.ExportPolicy]"], "trainer.callbacks", "write 'ExportPolicy'"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "key", "name"), OLD.values(), ids=OLD)
def test_an_old_name_is_refused_with_the_new_one(lightrl: Callable[..., Any], words: list[str], key: str, name: str) -> None:
    answer = lightrl("fit", "--config", "run.yaml", *words)
    assert answer.status == 2
    assert answer.lines[0].startswith(key)
    assert name in answer.err
    assert len(answer.lines) <= LINES


def test_a_checkpoint_with_old_names_is_refused() -> None:
    with pytest.raises(ValueError, match="'provenance'"):
        ResumeReport().on_load_checkpoint(quiet_trainer(), None, {"fingerprint": {}})  # type: ignore[arg-type]
