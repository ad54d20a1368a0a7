"""The callback by which `make bench CASE=gpu` meters runs of lightrl."""

from __future__ import annotations

from benchmarks.speed.bench_watch import Watch
from benchmarks.speed.gpu_cases import device_meter


class DeviceWatch(Watch):
    """Meters each step by the clock of the device."""

    def __init__(self, file: str) -> None:
        super().__init__(file, device_meter())
