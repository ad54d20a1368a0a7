"""The callbacks by which `make bench CASE=gpu` meters runs of lightrl."""

from __future__ import annotations

from benchmarks.speed.bench_watch import Watch
from benchmarks.speed.gpu_cases import device_meter
from lightrl.rollout.decode import step_choice


class DeviceWatch(Watch):
    """Meters each step by the clock of the device."""

    def __init__(self, file: str) -> None:
        super().__init__(file, device_meter())


class WithoutGraphs(DeviceWatch):
    """The same where each decode step goes through Python."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        step_choice.recorder_for = lambda model: None
