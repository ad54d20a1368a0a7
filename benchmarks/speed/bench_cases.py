"""The cases that `make bench` fixes for both sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

LR = 1e-6
"""Of the cases that measure time: the policy, and with it the lengths of completions, hardly changes."""


REAL = "smollm2"
"""In place of a size: the policy of a GGUF file, and data in the form of a chat."""


@dataclass(frozen=True)
class Rollouts:
    """GRPO on rollouts of this form; what is not named here is the default of each side."""

    size: str
    """Of the policy: a key of `bench_policy.SIZES`, or `REAL`."""
    cap: int
    """Most tokens of a completion."""
    mean_length: float | None
    """Of completions, without the cap; EOS is equally likely at every token. None: it never comes, but where the policy is real."""
    steps: int
    """Of a run, of which the first `warm` are not counted."""
    warm: int = 2
    prompts: int = 16
    group: int = 8
    prompt_tokens: int = 10
    vocabulary: int | None = None
    """Tokens; None: those of the alphabet."""
    lora: int | None = None
    """Rank of adapters on all linear layers but the head; None: every weight learns."""

    @property
    def rows(self) -> int:
        """Completions of a rollout."""
        return self.prompts * self.group


@dataclass(frozen=True)
class Examples:
    """Training on given texts."""

    kind: str
    """`sft`, `sft_packed`, `dpo` or `reward_model`."""
    size: str = "15M"
    steps: int = 8
    warm: int = 2
    batch: int = 16
    """Examples, or pairs, of an optimizer step."""
    longest: int = 96
    """Tokens of a completion, which are anything from 8 to this; those of a real policy have the lengths of their texts."""
    prompt_tokens: int = 24

    @property
    def in_pairs(self) -> bool:
        """An example is a pair of completions, and what is counted are pairs: neither side is asked for its tokens."""
        return not self.kind.startswith("sft")

    @property
    def examples(self) -> int:
        """Of the data: each step has new ones."""
        return self.batch * (self.steps + 2)


ROLLOUTS = {
    "skewed": Rollouts("1M", cap=128, mean_length=31, steps=8),
    "flat": Rollouts("1M", cap=16, mean_length=None, steps=14, warm=3),
    "15m": Rollouts("15M", cap=64, mean_length=None, steps=4, warm=1),
    "prompts500": Rollouts("1M", cap=32, mean_length=None, steps=4, warm=1, prompt_tokens=500),
    "overhead": Rollouts("133K", cap=8, mean_length=None, steps=40, warm=15, prompts=4),
    "smollm2": Rollouts(REAL, cap=64, mean_length=None, steps=4, prompts=4),
    "smollm2_lora": Rollouts(REAL, cap=64, mean_length=None, steps=4, prompts=4, lora=16),
}
EXAMPLES = {
    "sft": Examples("sft"),
    "sft_packed": Examples("sft_packed"),
    "dpo": Examples("dpo", batch=8, steps=6),
    "reward_model": Examples("reward_model", batch=8, steps=6),
    "smollm2_sft": Examples("sft", size=REAL, batch=8, steps=4, warm=1, prompt_tokens=256, longest=768),
    "smollm2_dpo": Examples("dpo", size=REAL, batch=4, steps=4, warm=1, prompt_tokens=256, longest=768),
}
REAL_CASES = tuple(name for name, case in (ROLLOUTS | EXAMPLES).items() if case.size == REAL)
"""What `make bench CASE=real` measures, and `make bench` does not."""
LOGPROBS = {"size": "1M", "vocabulary": 152_000, "rows": 16, "tokens": 256}
"""Log-probs of completions under a large vocabulary, with their gradient; lengths are spread evenly up to `tokens`."""
SORT6 = {"reward": 0.9, "over": 5, "steps": 600, "lr": 5e-4, "warmup": 10, "prompts": 32, "group": 8, "cap": 8}
"""GRPO from a policy that sorts a third of its digits, until the mean reward of this many rollouts is reached, or `steps` are made."""
ROUNDS = {"sort6": 3}
"""Of a case with fewer rounds than the others: those of `sort6` have a seed each."""
EXPECTED_S = {
    "skewed": 80,
    "flat": 40,
    "15m": 150,
    "prompts500": 145,
    "overhead": 45,
    "sort6": 150,
    "logprobs": 60,
    "sft": 60,
    "sft_packed": 45,
    "dpo": 45,
    "reward_model": 45,
    "smollm2": 400,
    "smollm2_lora": 350,
    "smollm2_sft": 170,
    "smollm2_dpo": 200,
}
"""Seconds of a round of both sides, on one core of the machine of docs/speed.md, for the plan that is printed first."""
