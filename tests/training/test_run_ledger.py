"""The ledger of a run times its phases and informs every observer of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightning.pytorch import Callback
from lightrl_workshop import InPlace, quiet_trainer

from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine
from lightrl.training.reports.run_ledger import PhaseObserver, RunLedger


class Heard(Callback, PhaseObserver):
    def __init__(self) -> None:
        self.phases = list[str]()

    def on_phase(self, phase: str) -> None:
        self.phases.append(phase)

    @property
    def state_key(self) -> str:
        return str(id(self))


def alone(value: object) -> list[object]:
    return [value]


def test_every_callback_that_follows_phases_is_informed_of_each(tmp_path: Path) -> None:
    first, second = Heard(), Heard()
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, heads=2),
        algorithm=GroupRelative(sampler=GroupSampler(2)),
        rewards={"start": InPlace()},
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=2,
    )
    trainer = quiet_trainer(max_epochs=1, callbacks=[first, second], default_root_dir=tmp_path)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=8), validation_size=2))
    once = list(dict.fromkeys(first.phases))
    assert once[0] == "evaluating"
    assert [phase for phase in once if phase in ("rollout", "reward", "logprobs", "optimize")] == [
        "rollout",
        "reward",
        "logprobs",
        "optimize",
    ]
    assert first.phases == second.phases
    assert {"perf/rollout_s", "perf/logprobs_s", "perf/reward_s", "perf/optimize_s"} <= module.numbers.keys()


def test_seconds_are_added_up_and_reported_once() -> None:
    ledger, other = RunLedger(), RunLedger.of_rollout({"x": ["mean", 3.0, 2.0, ""]}, {"rollout": 2.0})
    ledger.seconds["rollout"] = 1.0
    ledger.merge(other)
    assert ledger.reduce(alone) == {"perf/rollout_s": pytest.approx(3.0), "x": 1.5}  # type: ignore[arg-type]
    assert ledger.reduce(alone) == {}  # type: ignore[arg-type]
