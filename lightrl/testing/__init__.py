"""What plugin authors test with, and the project itself: engines that answer as told, and hand-made rollouts."""

from lightrl.testing.engines import ReplayEngine
from lightrl.testing.rollouts import random_rollout

__all__ = ["ReplayEngine", "random_rollout"]
