"""TensorBoard's custom scalars: what belongs together in one chart, of the numbers that this run really logs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lightrl.callbacks.alarms import Alarms
from lightrl.callbacks.logged_texts import writers
from lightrl.training.policy_module import PolicyModule

Charts = dict[str, list[str]]

LAYOUT: dict[str, Charts] = {
    "Reward": {
        "reward, training and validation": ["reward", "val/reward"],
        "validation: right answers": [r"val/(avg|pass|maj)@\d+"],
        "differences within groups": ["reward_std"],
        "groups without a difference": ["frac_reward_zero_std"],
        "completions without a score": ["unscorable_ratio"],
    },
    "Each reward": {
        "{}: score": [r"rewards/([^/]+)/mean"],
        "{}: what it brings": [r"rewards/([^/]+)/contribution"],
        "{}: without a score": [r"rewards/([^/]+)/(?:failed|timeout|abstained)"],
        "{}: seconds waited": [r"rewards/([^/]+)/seconds"],
    },
    "Validation by category": {"{}: right answers": [r"val/categories/(.*)/avg@\d+"]},
    "Pairs": {"accuracy": ["(val/)?(rewards/)?accurac(y|ies)"], "margin": ["(val/)?(rewards/)?margins?"], "scores": ["(val/)?score/mean"]},
    "Completions": {
        "length": [r"completions/(mean|min|max)_length"],
        "length of right and wrong ones": [r"completions/mean_length_(right|wrong)"],
        "cut off": ["(val/)?completions/clipped_ratio"],
        "correlation of length and reward": ["completions/length_reward_correlation"],
    },
    "Episodes": {
        "turns": ["(val/)?episodes/(max_)?turns"],
        "tokens by author": ["episodes/tokens", "episodes/tokens_of_others"],
        "ends": ["episodes/ended_.*"],
        "failures of the environment": ["environment/failed", "environment/timeout"],
        "seconds in the environment": ["environment/seconds"],
        "{}: calls": ["environment/tools/(.*)/calls"],
        "{}: errors": ["environment/tools/(.*)/errors"],
        "turns opened for somebody else": ["episodes/opened_turns"],
    },
    "Policy": {
        "entropy, nats per token": ["entropy", "entropy_estimate"],
        "importance ratio": ["ratio/(mean|max)"],
        "clipped tokens": ["clip_ratio/.*"],
        "KL, nats per token": ["kl", "approx_kl", "kl_in_reward"],
        "KL, nats per completion": ["kl_sequence"],
        "coefficient of the KL penalty": ["kl_coefficient"],
        "advantages": ["advantages/.*"],
        "engine against trainer": ["correction/.*"],
    },
    "Critic": {"explained variance": ["explained_variance"], "values and returns": ["values/mean", "returns/mean"]},
    "Optimisation": {"losses": ["loss", "val/loss", "[a-z_]+_loss"], "gradient norm": ["grad_norm"], "learning rate": ["lr"]},
    "Sampling": {"groups": ["sampling/(prompts|kept|dropped.*|down_weighted.*|carried|surplus)"], "rounds": ["sampling/rounds"]},
    "Time": {"seconds per phase": [r"perf/(?!completion).*_s"], "tokens per second": ["perf/tokens_per_second"]},
    "Alarms": {"1 = on": ["alarms/.*"]},
}
"""Charts by category; a chart shows the tags that one of its patterns matches as a whole.

TensorBoard draws all curves of a run in one colour, and says which is which only to those who ask. So what belongs to one reward or tool
has a chart of its own: a title with `{}` stands for a chart per text that the group of its patterns matches.
"""


class Dashboard(Callback):
    """Lays out TensorBoard's "Custom Scalars" page after the first rollout, when it is known what the run logs."""

    in_every_run = True

    def __init__(self) -> None:
        self._written = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A new run gets a layout of its own."""
        self._written = False

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: object) -> None:
        """Write the layout once."""
        if self._written or not trainer.is_global_zero:
            return
        self._written = True
        tags = {*(pl_module.numbers if isinstance(pl_module, PolicyModule) else ()), *trainer.callback_metrics}
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, Alarms):
                tags |= {f"alarms/{alarm.name}" for alarm in callback.alarms}
        layout = layout_of(tags)
        for logger in trainer.loggers:
            for writer in writers(logger, "add_custom_scalars") if layout else ():
                writer.add_custom_scalars(layout)


def layout_of(tags: Collection[str]) -> dict[str, dict[str, list[Any]]]:
    """The charts that have something to show, in the form that `SummaryWriter.add_custom_scalars` takes."""
    categories = {
        category: {title: chart for name, patterns in charts.items() for title, chart in _charts(name, patterns, tags)}
        for category, charts in LAYOUT.items()
    }
    return {category: charts for category, charts in categories.items() if charts}


def _charts(title: str, patterns: Iterable[str], tags: Collection[str]) -> Iterator[tuple[str, list[Any]]]:
    """The charts of a title: one, or one for each text that a group matches; none without a tag."""
    found = [(match, pattern) for pattern in patterns for tag in sorted(tags) if (match := re.fullmatch(pattern, tag))]
    for name in dict.fromkeys(match[1] if "{}" in title else "" for match, _ in found):
        of_name = [re.sub(r"\((?!\?).*?\)", re.escape(name).replace("\\", r"\\"), pattern) if name else pattern for _, pattern in found]
        # TensorBoard matches from the beginning only
        yield title.format(name), ["Multiline", [f"^({pattern})$" for pattern in dict.fromkeys(of_name)]]
