"""Rollouts of a real policy in a test: made by hand, prepared, or sampled without a run."""

from collections.abc import Sequence

import torch

from lightrl.parts.engine import RolloutEngine, Sampling
from lightrl.parts.environment import Environment, SingleTurn
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.decode.transformers_engine import TransformersEngine
from lightrl.rollout.loop import RolloutLoop
from lightrl.types import Prompt, Rollout


def random_rollout(
    policy: Policy, groups: int = 4, group_size: int = 4, longest: int = 9, off_policy: float = 0.3, seed: int = 0
) -> Rollout:
    """Random tokens as completions, with log-probs that differ from the policy's by noise.

    Args:
        policy: whose log-probs are perturbed.
        groups: B prompts, each two to five characters long.
        group_size: G completions per prompt.
        longest: completions have 1 to this many tokens.
        off_policy: standard deviation of the noise in nats; 0 makes every ratio 1.
        seed: of everything random here.
    """
    generator = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, size: int) -> list[int]:
        return torch.randint(low, high, (size,), generator=generator).tolist()

    prompts = [Prompt(id=f"p{i}", text="".join(map(str, integers(0, 10, size)))) for i, size in enumerate(integers(2, 6, groups))]
    vocabulary = policy.model.config.vocab_size
    asked = [policy.encode(prompt) for prompt in prompts for _ in range(group_size)]
    answered = [integers(2, vocabulary, size) for size in integers(1, longest + 1, groups * group_size)]
    lengths = torch.tensor([len(q) + len(a) for q, a in zip(asked, answered, strict=True)])
    input_ids = torch.zeros(len(asked), int(lengths.max()), dtype=torch.long)
    for i, (question, answer) in enumerate(zip(asked, answered, strict=True)):
        input_ids[i, : int(lengths[i])] = torch.tensor(question + answer)
    position = torch.arange(input_ids.shape[1])
    attention = position < lengths[:, None]
    response = attention & (position >= torch.tensor([len(q) for q in asked])[:, None])
    with torch.no_grad():
        logprobs = policy(input_ids, response).logprobs
    noise = off_policy * torch.randn(logprobs.shape, generator=generator, dtype=torch.float64)
    return Rollout(
        prompts=[prompt for prompt in prompts for _ in range(group_size)],
        completions=[policy.decode(answer) for answer in answered],
        input_ids=input_ids,
        attention_mask=attention,
        response_mask=response,
        rollout_logprobs=torch.where(response, logprobs + noise.to(logprobs), 0.0),
        group=torch.arange(groups).repeat_interleave(group_size),
        finish_reason=["length" if len(answer) == longest else "stop" for answer in answered],
        policy_version=torch.zeros(len(asked), dtype=torch.long),
        temperature=1.0,
        seeds=torch.arange(len(asked)) * 7919 + seed,
    )


class ReplayedRollouts(RolloutLoop):
    """Gives the same prepared rollout at every call, whatever the prompts, for tests of the steps after generation.

    Example: `module.collector.rollouts = ReplayedRollouts(rollout)`.
    """

    def __init__(self, rollout: Rollout) -> None:
        super().__init__(TransformersEngine(), SingleTurn())
        self._rollout = rollout

    def rollout(self, prompts: Sequence[Prompt], n: int, sampling: Sampling | None = None) -> Rollout:
        """A copy of the prepared rollout."""
        return self._rollout.select(range(len(self._rollout)))


def rollouts_with(
    policy: Policy, engine: RolloutEngine | None = None, environment: Environment | None = None, version: int = 0
) -> RolloutLoop:
    """The loop of a run with a policy's weights, by default in process and of one turn: `rollouts_with(policy).rollout(prompts, n)`."""
    rollouts = RolloutLoop(engine or TransformersEngine(), environment or SingleTurn())
    rollouts.update_weights(TrainerWeights(policy), version)
    return rollouts
