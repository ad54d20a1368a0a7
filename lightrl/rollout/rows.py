"""From episodes that are over to the rows of a rollout, with the numbers that their environment gave as extras."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor

from lightrl.ops.turns import turn_numbers
from lightrl.parts.environment import Environment
from lightrl.parts.output import ROLLOUT
from lightrl.rollout.episode_state import EpisodeState
from lightrl.run_end import BrokenWeightsError
from lightrl.types import Rollout


def rollout_of(episodes: Sequence[EpisodeState], temperature: float, version: int) -> Rollout:
    """The rows of episodes, padded on the right; on the host, from where the forwards take micro-batches to their device.

    Args:
        episodes: that are over, groups in a row.
        version: of the weights, for rows that nothing was sampled in.

    Raises:
        BrokenWeightsError: a log-prob is NaN.
    """
    lengths = torch.tensor([episode.length for episode in episodes], dtype=torch.long)
    openings = torch.tensor([len(episode.opening) for episode in episodes], dtype=torch.long)
    width = max([episode.length for episode in episodes], default=0) or 1
    attention = torch.arange(width) < lengths[:, None]
    behind = attention & (torch.arange(width) >= openings[:, None])
    sampled = _padded((e.sampled for e in episodes), behind, torch.bool)
    logprobs = _padded((e.logprobs for e in episodes), behind, torch.float32)
    _refuse_nan(logprobs, episodes)
    return Rollout(
        prompts=[episode.prompt for episode in episodes],
        completions=[episode.completion for episode in episodes],
        input_ids=_padded((episode.row for episode in episodes), attention, torch.long),
        attention_mask=attention,
        response_mask=sampled,
        rollout_logprobs=logprobs,
        group=torch.tensor([episode.group for episode in episodes], dtype=torch.long),
        finish_reason=[episode.finish_reason or "stop" for episode in episodes],
        policy_version=torch.tensor([min(e.versions, default=version) for e in episodes], dtype=torch.long),
        temperature=temperature,
        seeds=torch.tensor([episode.row_seed for episode in episodes], dtype=torch.long),
        episodes=[episode.record() for episode in episodes],
        extras=_recorded(episodes, width),
    )


def _recorded(episodes: Sequence[EpisodeState], width: int) -> dict[str, Tensor]:
    """`[N, L, ...]` of what the engine has recorded at sampled tokens, 0 elsewhere."""
    found: dict[str, Tensor] = {}
    for row, episode in enumerate(episodes):
        for start, recorded in episode.recorded:
            for name, numbers in recorded.items():
                whole = found.setdefault(f"{ROLLOUT}{name}", numbers.new_zeros((len(episodes), width, *numbers.shape[1:])))
                whole[row, start : start + len(numbers)] = numbers
    return found


def _padded(rows: Iterable[Sequence[float]], places: Tensor, dtype: torch.dtype) -> Tensor:
    """`[N, L]`: numbers of the rows at their places, 0 elsewhere; padding as lists would be read by Python number by number."""
    filled = torch.zeros(places.shape, dtype=dtype)
    filled[places] = torch.tensor(list(chain.from_iterable(rows)), dtype=dtype)
    return filled


def _refuse_nan(logprobs: Tensor, episodes: Sequence[EpisodeState]) -> None:
    broken = logprobs.isnan().any(1)
    if broken.any():
        prompt = episodes[int(broken.nonzero()[0, 0])].prompt
        raise BrokenWeightsError(
            f"the policy gave NaN logits for {int(broken.sum())} of {len(episodes)} rows (first for prompt {prompt.id!r}): "
            "its weights are no longer finite, or its precision is too narrow.\nThe last checkpoint was written before. Type: "
            "--ckpt_path last, with a smaller --model.optimizer.lr or --model.max_grad_norm"
        )


def environment_extras(episodes: Sequence[EpisodeState], environment: Environment, mask: Tensor) -> dict[str, Tensor]:
    """Every extra that the environment declares, f32, also where no episode has one.

    Args:
        mask: `[N, L]` bool, tokens that the policy sampled.
    """
    whole = {
        name: torch.tensor([next((told[name] for told in reversed(e.told) if name in told), 0.0) for e in episodes])
        for name in sorted(environment.gives)
    }
    turns = {name: _on_turns(episodes, name, mask) for name in sorted(environment.gives_per_turn)}
    return whole | turns


def _on_turns(episodes: Sequence[EpisodeState], name: str, mask: Tensor) -> Tensor:
    """`[N, L]`: the number of each turn on its tokens, 0 elsewhere."""
    most = max((len(episode.told) for episode in episodes), default=0)
    numbers = torch.zeros(len(episodes), most + 1)
    for row, episode in enumerate(episodes):
        for turn, told in enumerate(episode.told):
            numbers[row, turn] = told.get(name, 0.0)
    # no turn has the last number, 0, which stands where others wrote
    return numbers.gather(1, turn_numbers(mask) % (most + 1))
