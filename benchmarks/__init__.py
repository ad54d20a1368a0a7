"""Measurements and long checks, run as modules from the root of the repository: `python -m benchmarks.speed.bench`, or `make bench`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The root of the repository."""


def config_files() -> dict[str, Path]:
    """The configs of the repository, by name."""
    return {file.stem: file for file in sorted((ROOT / "configs").rglob("*.yaml"))}


def config_file(name: str) -> Path:
    """The file of a config."""
    return config_files()[name]
