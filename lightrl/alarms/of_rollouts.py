"""Alarms about what was sampled and scored: groups without signal, one reward above all, lengths, cuts, failures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from lightrl.alarms.alarm import WINDOW, Alarm, History


@dataclass(eq=False)
class ZeroVariance(Alarm):
    """Nearly every group has zero variance.

    Of all groups that were drawn, dropped ones included, the share with equal rewards, mean over the last 5 rollouts, >= limit.
    """

    limit: float = 0.95

    name = "zero_variance"
    why = "If all completions of a prompt have the same reward, group-relative advantages are 0 and there is nothing to learn from."
    advice = (
        "If `reward` is high, the prompts are solved: take harder ones. If it is low, take easier ones, more supervised fine-tuning or "
        "larger groups. If it never changes, look at `completions` and run `lightrl reward test`: the reward may not tell completions "
        "apart."
    )

    def seen(self, history: History) -> str | None:
        share = history.mean("frac_reward_zero_std", WINDOW)
        if drawn := history.mean("sampling/prompts", WINDOW):
            lost = [history.mean(f"sampling/{what}_zero_variance", WINDOW) or 0.0 for what in ("dropped", "down_weighted")]
            share = max(share or 0.0, sum(lost) / drawn)
        if share is None or share < self.limit:
            return None
        return f"in {share:.0%} of the groups of the last {WINDOW} rollouts all rewards were equal (limit {self.limit:.0%})."


@dataclass(eq=False)
class Dominance(Alarm):
    """One reward decides almost alone which completions are better, while another one still varies.

    `rewards/{name}/share`, mean over the last 5 rollouts, > limit; another reward with a weight whose raw scores have a standard
    deviation of a quarter of their mean or more could have had an influence. A reward that every completion earns could not.
    """

    limit: float = 0.95

    name = "reward_dominance"
    why = "The advantage depends on one reward alone, so the policy may get worse at the other one without noticing."
    advice = "Bring the rewards to one scale: change `weight`, or set `normalize: group` on both; `lightrl reward test` shows their spread."
    VARIES = 0.25

    def seen(self, history: History) -> str | None:
        latest = history.latest[-1] if history.latest else {}
        weighted = [found[1] for key, weight in latest.items() if weight and (found := re.fullmatch("rewards/([^/]*)/weight", key))]
        shares = {name: history.mean(f"rewards/{name}/share", WINDOW) for name in weighted}
        for name, share in shares.items():
            drowned = [other for other in weighted if other != name and self._varies(history, other)]
            if share is not None and share > self.limit and drowned:
                return (
                    f"{share:.0%} of the variance of the reward within groups came from `{name}` in the last {WINDOW} rollouts (limit "
                    f"{self.limit:.0%}), though {' and '.join(f'`{other}`' for other in drowned)} varied too."
                )
        return None

    def _varies(self, history: History, name: str) -> bool:
        mean, std = history.mean(f"rewards/{name}/mean", WINDOW), history.mean(f"rewards/{name}/std", WINDOW)
        return mean is not None and std is not None and std > 0 and std >= self.VARIES * abs(mean)


LASTING = 10
"""Rollouts: a correlation of one rollout is noisy."""


@dataclass(eq=False)
class LengthReward(Alarm):
    """Reward and length correlate within groups: |`completions/length_reward_correlation`|, mean over the last 10 rollouts, > limit."""

    limit: float = 0.8

    name = "length_reward"
    why = "The policy then learns first how long to be: its completions grow or shrink, whatever they say."
    advice = (
        "Look at `completions`, and at `completions/mean_length_right` beside `_wrong`. If you do not mean to reward length, change the "
        "reward, or use an aggregation that is neutral to length (ConstantLength)."
    )

    def seen(self, history: History) -> str | None:
        correlation = history.mean("completions/length_reward_correlation", LASTING)
        if correlation is None or abs(correlation) <= self.limit:
            return None
        which = "longer" if correlation > 0 else "shorter"
        return (
            f"the {which} completions of a group had the higher reward: correlation {correlation:+.2f} over the last {LASTING} rollouts "
            f"(limit {self.limit:g})."
        )


@dataclass(eq=False)
class Unscored(Alarm):
    """Too many completions have no score.

    The largest of `unscorable_ratio` and each reward's `rewards/{name}/failed`, mean over the last 5 rollouts, > limit.
    """

    limit: float = 0.1

    name = "unscored"
    why = (
        "Rows without a score are left out of the loss, so the policy learns from the others alone, and completions that make a reward "
        "fail have no disadvantage."
    )
    advice = (
        "Read the warnings of the reward on the terminal, run `lightrl reward test` on such completions, and raise timeout_s if the "
        "failures are time-outs (`rewards/NAME/timeout`)."
    )

    def seen(self, history: History) -> str | None:
        latest = history.latest[-1] if history.latest else {}
        watched = [key for key in latest if key == "unscorable_ratio" or (key.startswith("rewards/") and key.endswith("/failed"))]
        shares = {key: history.mean(key, WINDOW) or 0.0 for key in watched}
        worst = max(shares, key=lambda key: shares[key], default=None)
        if worst is None or shares[worst] <= self.limit:
            return None
        return f"`{worst}` was {shares[worst]:.0%} over the last {WINDOW} rollouts (limit {self.limit:.0%})."


class UncalledTools(Alarm):
    """A policy with tools does not call them: over the last 5 rollouts there were no calls, or more turns that only look like one."""

    name = "uncalled_tools"
    why = "Rewards are then earned without the tools, and the policy unlearns them: what is never tried is never rewarded."
    advice = (
        "Look at `completions`. If there are calls, set the call_format of the environment, or show the policy the one that is read; if "
        "there are none, see that the prompt tells of the tools, and begin from a policy that has learnt to call."
    )

    def seen(self, history: History) -> str | None:
        latest = history.latest[-1] if history.latest else {}
        means = [history.mean(key, WINDOW) for key in latest if re.fullmatch("environment/tools/.*/calls", key)]
        calls = [mean for mean in means if mean is not None]
        unread = sum(numbers.get("environment/tools/unread_calls", 0.0) for numbers in list(history.latest)[-WINDOW:]) / WINDOW
        if not calls or len(calls) < len(means) or sum(calls) > unread:
            return None
        made = f"tools were called {sum(calls):.3g} times a rollout" if any(calls) else "no tool was called"
        looked = f", and {unread:.3g} turns a rollout look like calls in a format that is not read" if unread else ""
        return f"in the last {WINDOW} rollouts {made}{looked}."


class TooLarge(Alarm):
    """A share is too large: its mean over the last 5 rollouts is > limit."""

    limit: float
    number: ClassVar[str]
    """The name under which the share is logged."""
    shown: ClassVar[str]
    """What the share is, with `{}` for it."""

    def seen(self, history: History) -> str | None:
        share = history.mean(self.number, WINDOW)
        if share is None or share <= self.limit:
            return None
        return f"in the last {WINDOW} rollouts {self.shown.format(f'{share:.0%}')} (limit {self.limit:.0%})."


@dataclass(eq=False)
class Truncation(TooLarge):
    """Too many completions reach the limit on new tokens: `completions/clipped_ratio`, mean over the last 5 rollouts, > limit."""

    limit: float = 0.25

    name, number, shown = "truncation", "completions/clipped_ratio", "{} of the completions were cut off"
    why = "A completion that is cut off mostly counts as wrong, so the policy learns to be short and not to be right."
    advice = (
        "Raise model.engine.max_new_tokens (of episodes, also the token limits of model.environment), mask truncated rows (token_weight: "
        "MaskTruncated), or check in `completions` whether the policy repeats itself or has no end token in its template."
    )


@dataclass(eq=False)
class OpenedTurns(TooLarge):
    """The policy opens turns of another author: `episodes/opened_turns`, mean over the last 5 rollouts, > limit."""

    limit: float = 0.05

    name, number, shown = "opened_turns", "episodes/opened_turns", "{} of the policy's turns opened a turn of somebody else"
    why = "A policy that writes the replies of its environment itself is rewarded for a conversation that never took place."
    advice = (
        "Look at `completions`. Add the opening of the other author's turn to model.engine.stop, see that the policy's chat template ends "
        "its turns with a token that ends a completion, or lower the score of such turns by a reward."
    )
