"""Measurements and long checks, run as modules from the root of the repository: `python -m benchmarks.speed.bench`, or `make bench`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The root of the repository."""
CONFIGS = ROOT / "configs"
