"""Drawing, scoring and writing completions of the prompts of a config, some prompts at a time."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from lightrl import own_opening
from lightrl.cli.data_tools import ResumableRows, ScoringConfig, number
from lightrl.config import ConfigError, trained_policy
from lightrl.ops.moments import row_sum, row_values
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rewards.reward_set import RewardSet
from lightrl.rollout.loop import RolloutLoop
from lightrl.text.token_bound import TokenBound
from lightrl.training.evaluating.canary import PolicyWatch
from lightrl.training.evaluating.evaluator import conversation
from lightrl.training.setup.building import ONE_THREAD_BELOW, prompt_tokens
from lightrl.types import Prompt, ScoredRollout
from lightrl_rft.sample.rejection import Candidate, Keep, rejection_counts


class SamplingSession:
    """The policy, engine, prompts and rewards of a config at work."""

    def __init__(
        self, config: ScoringConfig, checkpoint: Path | None, rewards: RewardSet, environment: Environment, options: argparse.Namespace
    ) -> None:
        """With the checkpoint's weights or those of the source; a ConfigError if it has another policy, or prompts are too few."""
        build, model = config.builder.build, config.resolved.model
        self.rewards, self.n, self.step = rewards, options.n, options.prompts_at_a_time
        self.right = 0.0 if options.at_least is None else float(torch.tensor(options.at_least).nextafter(torch.tensor(-torch.inf)))
        policy = _policy(config, checkpoint).to(_device(options.device)).requires_grad_(False)
        if policy.model.device.type == "cpu" and sum(p.numel() for p in policy.parameters()) < ONE_THREAD_BELOW:
            torch.set_num_threads(1)
        engine: RolloutEngine = build(model.value("engine"), "model.engine")
        self.rollouts = RolloutLoop(engine, environment, PolicyWatch(engine, policy))
        self.rollouts.update_weights(TrainerWeights(policy), 0)
        self.data = build(config.resolved.data, "data")
        room = policy.max_positions
        limit = None if room is None else room - self.rollouts.engine.sampling.max_new_tokens
        self.data.measure(prompt_tokens(policy, self.rollouts.environment), limit, TokenBound(policy.tokenizer, policy.eos_token_ids))
        self.prompts = _how_many(options.prompts, self.data.sizes()["train"])
        self.rewards.check(self.data.columns(), self.data.placed_prompts())

    def fill(self, rows: ResumableRows, keep: Keep) -> None:
        """Go through all prompts left, to `rows` what `keep` chooses; a ConfigError if a reward or the environment fails too often."""
        with closing(self.rollouts), _progress() as progress:
            if rows.state is not None:
                self.data.draw(rows.done)
                self.rollouts.load_state_dict(rows.state["rollouts"])
                self.rewards.load_state_dict(rows.state["rewards"])
            task = progress.add_task("Sampling", total=self.prompts, completed=rows.done)
            while rows.done < self.prompts:
                prompts = self.data.draw(min(self.step, self.prompts - rows.done))
                written, total = self._chosen(prompts, keep)
                # what failed is not noted as done, so that it is tried again
                self._refuse_failures(rows.done)
                state = {"rollouts": self.rollouts.state_dict(), "rewards": self.rewards.state_dict()}
                rows.add(written, len(prompts), total, state)
                progress.update(task, completed=rows.done)

    def _chosen(self, prompts: list[Prompt], keep: Keep) -> tuple[list[dict[str, Any]], Mapping[str, float]]:
        scored = self.rewards.score(self.rollouts.rollout(prompts, self.n))
        candidates = list(_candidates(self.rewards, scored))
        rows: list[dict[str, Any]] = []
        total: defaultdict[str, float] = defaultdict(int)
        for prompt, (start, end) in zip(prompts, pairwise(range(0, len(candidates) + 1, self.n)), strict=True):
            kept = keep(candidates[start:end])
            rows += [{**prompt.columns, "id": prompt.id, "prompt": own_opening(prompt), "answer": prompt.answer, **row} for row in kept]
            for name, count in rejection_counts(candidates[start:end], len(kept), self.right).items():
                total[name] += count
        return rows, total

    def _refuse_failures(self, done: int) -> None:
        for key, complaint in {"model.rewards": self.rewards.spent(), "model.environment": self.rollouts.spent()}.items():
            if complaint is not None:
                raise ConfigError(key, " ".join(complaint.split()), f"{done:,} prompts are done and kept.")


def _candidates(rewards: RewardSet, scored: ScoredRollout) -> Iterator[Candidate]:
    totals = torch.stack(list(rewards.contributions(scored).values())).sum(0)
    logprobs = row_sum(scored.rollout_logprobs.double(), scored.response_mask)
    parts = {name: row_values(part) for name, part in scored.reward_parts.items()}
    for i, text in enumerate(scored.completions):
        columns = {"tokens": int(scored.response_lengths[i]), "rewards": {name: number(part[i]) for name, part in parts.items()}}
        columns |= conversation(scored, i)
        yield Candidate(text, float(totals[i]), float(logprobs[i]), scored.finish_reason[i], columns)


def _policy(config: ScoringConfig, checkpoint: Path | None) -> Policy:
    if checkpoint is None:
        policy: Policy = config.builder.build(config.resolved.model.value("policy"), "model.policy").build()
        return policy
    from lightrl.strategies.checkpoint_weights import trained_weights

    return trained_policy(config.resolved, trained_weights(checkpoint), checkpoint)


def _device(wanted: str | None) -> torch.device:
    try:
        device = torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError("--device", f"{wanted!r} cannot be used: {str(error).splitlines()[0]}") from error
    return device


def _how_many(wanted: int | None, size: int | None) -> int:
    if size is None and wanted is None:
        raise ConfigError("--prompts", "not given, and the training prompts have no end.", "Type for example: --prompts 1000")
    if wanted is not None and size is not None and wanted > size:
        raise ConfigError("--prompts", f"there are {size:,} training prompts, got {wanted:,}.", "Raise --n for more completions of each.")
    return wanted or size or 0


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("prompts"), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)
