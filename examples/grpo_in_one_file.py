"""GRPO in one file, without lightrl: `python examples/grpo_in_one_file.py --policy <the folder that sft_sort.yaml has written>`.

What lightrl does, spelled out once with torch and transformers alone: sample groups of completions, score them, compare each with
its group, and take clipped steps with a penalty for leaving the reference. The tests hold lightrl's weights after several steps
against those of this file.

Source: Shao et al. 2024 (DeepSeekMath), arXiv:2402.03300, section 4.1.
"""

from __future__ import annotations

import argparse
import copy
import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer


@dataclass(frozen=True)
class Settings:
    """Of a run."""

    prompts: int = 32
    group_size: int = 8
    max_new_tokens: int = 8
    minibatches: int = 2
    epochs: int = 1
    learning_rate: float = 6e-4
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coefficient: float = 0.04
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class Batch:
    """N completions, those of one prompt beside each other."""

    ids: Tensor
    """`[N, L]`: prompt and completion, padded on the right."""
    mask: Tensor
    """`[N, L]` bool: the sampled tokens, EOS included."""
    rewards: Tensor
    """`[N]`."""
    group: Tensor
    """`[N]`: which prompt."""

    def select(self, rows: Tensor) -> Batch:
        """Some of the rows."""
        return Batch(self.ids[rows], self.mask[rows], self.rewards[rows], self.group[rows])


def sorting_task(chance: random.Random) -> tuple[str, str]:
    """Six digits, and the same in order."""
    digits = [chance.choice("0123456789") for _ in range(6)]
    return "".join(digits) + "=", "".join(sorted(digits))


@torch.no_grad()
def rollout(model: Any, tokenizer: Any, tasks: list[tuple[str, str]], settings: Settings) -> Batch:
    """A group of completions for each prompt (all of one length), sampled at temperature 1; reward 1 for an exact match."""
    prompts = tokenizer([prompt for prompt, _ in tasks], return_tensors="pt").input_ids
    ids = model.generate(
        prompts, do_sample=True, top_k=0, top_p=1.0, max_new_tokens=settings.max_new_tokens,
        num_return_sequences=settings.group_size, pad_token_id=tokenizer.pad_token_id or 0,
    )  # fmt: skip
    sampled = ids[:, prompts.shape[1] :]
    ended = (sampled == tokenizer.eos_token_id).cumsum(1)
    # up to the first EOS, and that one too
    kept = (ended == 0) | ((ended == 1) & (sampled == tokenizer.eos_token_id))
    mask = torch.cat([torch.zeros(len(ids), prompts.shape[1], dtype=torch.bool), kept], 1)
    texts = [tokenizer.decode(row[keep], skip_special_tokens=True) for row, keep in zip(sampled, kept, strict=True)]
    group = torch.arange(len(tasks)).repeat_interleave(settings.group_size)
    rewards = [float(text == tasks[g][1]) for text, g in zip(texts, group.tolist(), strict=True)]
    return Batch(ids, mask, torch.tensor(rewards), group)


def logprobs_of(model: Any, batch: Batch) -> Tensor:
    """`[N, L]` log pi(token | what stands before it), 0 where nothing was sampled."""
    logits = model(input_ids=batch.ids).logits.float().log_softmax(-1)
    of_next = logits[:, :-1].gather(2, batch.ids[:, 1:, None])[..., 0]
    return torch.cat([torch.zeros_like(of_next[:, :1]), of_next], 1) * batch.mask


def advantages_of(batch: Batch) -> Tensor:
    """`[N]`: (R - mean of the group) / (standard deviation of the group + 1e-6), 0 where all of a group are equal."""
    found = torch.zeros_like(batch.rewards)
    for g in batch.group.unique():
        rows = batch.group == g
        rewards = batch.rewards[rows]
        if rewards.min() != rewards.max():
            found[rows] = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    return found


def loss_of(now: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, settings: Settings) -> Tensor:
    """The mean over completions of the mean over their tokens of -min(r A, clip(r) A) + beta k3."""
    ratio = (now - old).exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    gain = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    behind = reference - now
    k3 = behind.exp() - 1 - behind
    per_token = (settings.kl_coefficient * k3 - gain) * mask
    return (per_token.sum(1) / mask.sum(1)).mean()


def learn(model: Any, reference: Any, optimizer: Any, batch: Batch, settings: Settings, order: torch.Generator | None = None) -> None:
    """Epochs over minibatches of whole groups, one optimizer step each."""
    advantages = advantages_of(batch)
    with torch.no_grad():
        old, anchor = logprobs_of(model, batch), logprobs_of(reference, batch)
    groups = batch.group.unique()
    for _ in range(settings.epochs):
        for chosen in groups[torch.randperm(len(groups), generator=order)].chunk(settings.minibatches):
            rows = torch.isin(batch.group, chosen).nonzero()[:, 0]
            part = batch.select(rows)
            loss = loss_of(logprobs_of(model, part), old[rows], anchor[rows], advantages[rows], part.mask, settings)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    """Train a policy to sort digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", required=True, help="folder of a causal LM that is sometimes right")
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    settings, chance = Settings(), random.Random(arguments.seed)
    torch.manual_seed(arguments.seed)
    model: Any = AutoModelForCausalLM.from_pretrained(arguments.policy)
    tokenizer, reference = AutoTokenizer.from_pretrained(arguments.policy), copy.deepcopy(model).eval()
    optimizer = torch.optim.AdamW(model.parameters(), settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    for number in range(arguments.rollouts):
        batch = rollout(model, tokenizer, [sorting_task(chance) for _ in range(settings.prompts)], settings)
        learn(model, reference, optimizer, batch, settings)
        if number % 20 == 19:
            print(f"rollout {number + 1}: reward {batch.rewards.mean():.3f}, {batch.mask.sum(1).float().mean():.1f} tokens", flush=True)


if __name__ == "__main__":
    main()
