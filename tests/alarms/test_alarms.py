"""Each rule over logged numbers: what raises it, and the nearest thing that does not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import pytest

from lightrl.alarms.alarm import LATEST, Alarm, History
from lightrl.alarms.of_learning import EntropyCollapse, FirstPass, Gradient, KLBlowUp, ValidationFalls
from lightrl.alarms.of_rollouts import Dominance, LengthReward, OpenedTurns, Truncation, UncalledTools, Unscored, ZeroVariance
from lightrl.ops.agreement import Limits


def history(rollouts: int = 10, **numbers: float | Sequence[float]) -> History:
    """A run whose numbers stay as they are, or come from a list with one per rollout; `__` in a name is a slash."""
    run = History()
    for i in range(rollouts):
        run.add({name.replace("__", "/"): value if isinstance(value, (int, float)) else value[i] for name, value in numbers.items()})
    return run


CALLS = {"environment__tools__add__calls": 4.0, "environment__tools__ask__calls": 0.0, "environment__tools__unread_calls": 0.0}
"""A rollout in which one of two tools is called."""


@pytest.mark.parametrize(
    ("alarm", "raising", "quiet"),
    [
        (ZeroVariance(), {"frac_reward_zero_std": 0.96}, {"frac_reward_zero_std": 0.9}),
        (
            ZeroVariance(),
            {"sampling__prompts": 100.0, "sampling__dropped_zero_variance": 97.0, "frac_reward_zero_std": 0.0},
            {"sampling__prompts": 100.0, "sampling__dropped_zero_variance": 60.0, "frac_reward_zero_std": 0.0},
        ),
        (
            EntropyCollapse(),
            {"entropy": [1.0] * 5 + [0.05] * 5, "reward": 0.3, "reward_std": 0.4},
            {"entropy": [1.0] * 5 + [0.2] * 5, "reward": 0.3, "reward_std": 0.4},
        ),
        # certain because it has become good
        (
            EntropyCollapse(),
            {"entropy_estimate": [1.0] * 5 + [0.05] * 5, "reward": [0.3] * 5 + [0.6] * 5, "reward_std": 0.4},
            {"entropy_estimate": [1.0] * 5 + [0.05] * 5, "reward": [0.3] * 5 + [0.8] * 5, "reward_std": 0.4},
        ),
        (KLBlowUp(), {"kl": 1.5}, {"kl": 0.7}),
        (KLBlowUp(), {"kl_sequence": 300.0, "completions__mean_length": 200.0}, {"kl_sequence": 30.0, "completions__mean_length": 200.0}),
        (KLBlowUp(), {"approx_kl": 0.2}, {"approx_kl": [0.01] * 9 + [0.2]}),
        (KLBlowUp(), {"approx_kl": [0.0] * 9 + [1.2]}, {"approx_kl": [0.0] * 9 + [0.4], "kl": 0.0}),
        (Truncation(), {"completions__clipped_ratio": 0.3}, {"completions__clipped_ratio": 0.2}),
        (OpenedTurns(), {"episodes__opened_turns": 0.06}, {"episodes__opened_turns": 0.04}),
        (UncalledTools(), CALLS | {"environment__tools__add__calls": 0.0}, CALLS),
        (UncalledTools(), CALLS | {"environment__tools__unread_calls": 9.0}, CALLS | {"environment__tools__unread_calls": 1.0}),
        (
            FirstPass(Limits(1e-3, 0.1)),
            {"ratio__first_pass_mean": [0.0] * 9 + [2e-3], "ratio__first_pass_far": 0.0},
            {"ratio__first_pass_mean": 5e-4, "ratio__first_pass_far": 0.09, "ratio__first_pass_deviation": 2.0},
        ),
        (
            Dominance(),
            {
                "rewards__a__share": 0.98, "rewards__a__weight": 20.0, "rewards__b__share": 0.02, "rewards__b__weight": 1.0,
                "rewards__b__mean": 0.5, "rewards__b__std": 0.5,
            },
            # the other one is nearly always earned: there is nothing left to tell apart
            {
                "rewards__a__share": 0.98, "rewards__a__weight": 1.0, "rewards__b__share": 0.02, "rewards__b__weight": 1.0,
                "rewards__b__mean": 0.99, "rewards__b__std": 0.1,
            },
        ),
        (
            Dominance(),
            {
                "rewards__a__share": 0.98, "rewards__a__weight": 1.0, "rewards__b__weight": -0.1, "rewards__b__mean": 0.0,
                "rewards__b__std": 1.0,
            },
            # without a weight it is there to be watched
            {
                "rewards__a__share": 1.0, "rewards__a__weight": 1.0, "rewards__b__weight": 0.0, "rewards__b__mean": 0.0,
                "rewards__b__std": 1.0,
            },
        ),
        (LengthReward(), {"completions__length_reward_correlation": -0.9}, {"completions__length_reward_correlation": 0.6}),
        (Unscored(), {"rewards__a__failed": 0.2, "unscorable_ratio": 0.0}, {"rewards__a__failed": 0.02, "unscorable_ratio": 0.05}),
        (Unscored(), {"unscorable_ratio": 0.5}, {"unscorable": 500.0}),
        (Gradient(), {"grad_norm": [1.0] * 9 + [0.9, 12.0]}, {"grad_norm": [1.0] * 9 + [0.9, 8.0]}),
        (Gradient(), {"grad_norm": [1.0] * 10 + [math.inf]}, {"grad_norm": 1.0}),
        (Gradient(), {"nonfinite_gradients": [0.0] * 10 + [2.0]}, {"nonfinite_gradients": 0.0}),
    ],
    ids=lambda value: value.name if isinstance(value, Alarm) else "",
)  # fmt: skip
def test_a_rule_by_hand(alarm: Alarm, raising: Mapping[str, float], quiet: Mapping[str, float]) -> None:
    rollouts = 11 if isinstance(alarm, Gradient) else 10
    assert alarm.seen(history(rollouts, **raising))
    assert alarm.seen(history(rollouts, **quiet)) is None


def steps(count: int = 11, **numbers: float | Sequence[float]) -> History:
    """As `history`, of a run whose numbers are logged for each step."""
    run = history(count, **numbers)
    run.unit = "step"
    return run


def test_a_run_without_rollouts_is_spoken_to_of_steps() -> None:
    alarm = Gradient()
    assert alarm.seen(steps(nonfinite_gradients=[0.0] * 10 + [1.0])) == "the gradient of this step was not finite."
    seen = alarm.seen(steps(grad_norm=[1.0] * 10 + [217.0]))
    assert seen == "`grad_norm` was 217, 217 times the median of the steps before (limit 10 times)."
    assert "look at `lr`, `rewards/margins` and `loss` of this step; if" in alarm.advice_for(steps(rewards__margins=0.1, loss=1.0))
    assert "`ratio/max`, `advantages/max` and `completions` of this rollout; if" in alarm.advice_for(history())


def test_a_kl_without_rollouts_is_another_number() -> None:
    """KTO logs its reference point as `kl`, in nats per completion."""
    assert KLBlowUp().seen(history(kl=5.0)) is not None
    assert KLBlowUp().seen(steps(kl=5.0)) is None


def validated(scores: Sequence[float], rewards: Sequence[float]) -> History:
    """A run with a validation after every ten rollouts."""
    run = History()
    for score, reward in zip(scores, rewards, strict=True):
        for _ in range(10):
            run.add({"reward": reward})
        run.add_validation({"val/reward": reward, "val/avg@4": score})
    return run


def test_a_validation_that_falls_while_the_reward_rises() -> None:
    rising = [0.2, 0.3, 0.4, 0.5]
    seen = ValidationFalls().seen(validated([0.5, 0.6, 0.5, 0.4], rising))
    assert seen is not None
    assert "`val/avg@4` fell from its best, 0.6, to 0.4, while the training reward rose from 0.3 to 0.5" in seen
    quiet = {
        "both fall": ([0.5, 0.6, 0.5, 0.4], [0.5, 0.4, 0.3, 0.2]),
        "one bad validation": ([0.5, 0.55, 0.6, 0.4], rising),
        "little": ([0.5, 0.6, 0.59, 0.58], rising),
        "the reward stays": ([0.5, 0.6, 0.5, 0.4], [0.5, 0.5, 0.5, 0.51]),
        "too early": ([0.6, 0.4], [0.2, 0.3]),
    }
    assert {case: ValidationFalls().seen(validated(*values)) for case, values in quiet.items()} == dict.fromkeys(quiet)


EVERY = [
    ZeroVariance, EntropyCollapse, KLBlowUp, Truncation, FirstPass, Dominance, ValidationFalls, LengthReward, Unscored, Gradient,
    OpenedTurns,
]  # fmt: skip


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.name)
def test_nothing_is_seen_where_nothing_is_logged(cls: type[Alarm]) -> None:
    assert cls().seen(History()) is None
    assert cls().seen(history(20, loss=1.0)) is None
    assert cls.why.endswith(".")
    assert cls.advice.endswith(".")


def test_a_history_goes_through_json_and_forgets_what_is_old() -> None:
    run = validated([0.5, 0.6, 0.5, 0.4, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    again = History()
    again.load_state_dict(json.loads(json.dumps(run.state_dict())))
    assert again.state_dict() == run.state_dict()
    assert len(again.latest) == LATEST < again.count == 60
    assert again.mean_at_start("reward") == pytest.approx(0.1)
    assert again.mean("reward", 20) == pytest.approx(0.55)
    assert again.mean("reward", 60) is None
