"""What plugin authors test with, and the project itself: contract tests, engines that answer as told, hand-made rows."""

from lightrl.testing.collection import Meeting, ScriptedCollection
from lightrl.testing.contract_tests import class_cases, contract_cases, contract_tests
from lightrl.testing.contracts import BrokenContract
from lightrl.testing.engines import ReplayEngine
from lightrl.testing.experience import experience as hand_made_experience
from lightrl.testing.rollouts import random_rollout

__all__ = [
    "BrokenContract",
    "Meeting",
    "ReplayEngine",
    "ScriptedCollection",
    "class_cases",
    "contract_cases",
    "contract_tests",
    "hand_made_experience",
    "random_rollout",
]
