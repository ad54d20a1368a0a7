"""Engines in Ray actors, on one machine or many."""

from lightrl import hookimpl
from lightrl_ray.ray_engine import RayEngine

__all__ = ["RayEngine"]


@hookimpl
def lightrl_engines() -> list[type]:
    return [RayEngine]
