"""Tools for tests of plugins and of the project itself: contract tests, toy rewards, a quiet trainer, prepared engines, hand-made rows."""

from lightrl.testing.checks.check import BrokenContract
from lightrl.testing.collection import Meeting, ScriptedCollection
from lightrl.testing.contract_tests import class_cases, contract_cases, contract_tests
from lightrl.testing.engines import ReplayedRollouts
from lightrl.testing.experience import experience as hand_made_experience
from lightrl.testing.experience import learnt_from
from lightrl.testing.one_step import assert_same_gradient, gradient_of_step
from lightrl.testing.ranks import on_ranks
from lightrl.testing.rewards import CodePoints, FewCharacters, FirstDigits, InPlace, SmallDigits
from lightrl.testing.rollouts import random_rollout
from lightrl.testing.sampling import rollouts_with
from lightrl.testing.trainer import quiet_trainer

__all__ = [
    "BrokenContract",
    "CodePoints",
    "FewCharacters",
    "FirstDigits",
    "InPlace",
    "Meeting",
    "ReplayedRollouts",
    "ScriptedCollection",
    "SmallDigits",
    "assert_same_gradient",
    "class_cases",
    "contract_cases",
    "contract_tests",
    "gradient_of_step",
    "hand_made_experience",
    "learnt_from",
    "on_ranks",
    "quiet_trainer",
    "random_rollout",
    "rollouts_with",
]
