"""Tools for tests of plugins and of the project itself: contract tests, toy rewards, a quiet trainer, prepared engines, hand-made rows."""

from lightrl_workshop.checks.check import BrokenContract
from lightrl_workshop.collection import ScriptedCollection
from lightrl_workshop.contract_tests import class_cases, contract_cases, contract_tests
from lightrl_workshop.experience import experience as hand_made_experience
from lightrl_workshop.experience import learnt_from
from lightrl_workshop.ranks import Meeting, on_ranks
from lightrl_workshop.rollouts import ReplayedRollouts, random_rollout, rollouts_with
from lightrl_workshop.toy import CodePoints, FewCharacters, FirstDigits, InPlace, SmallDigits
from lightrl_workshop.trainer import assert_same_gradient, gradient_of_step, quiet_trainer

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
