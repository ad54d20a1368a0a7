"""`TensorLoss`: the loss of a run, in a loop that is not lightrl's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from lightrl_dapo import DAPO
from lightrl_dcpo import DCPO
from lightrl_grpo import GRPO, DrGRPO
from lightrl_gspo import GSPO
from lightrl_ppo import PPO, RLOO
from lightrl_workshop import CodePoints, gradient_of_step, random_rollout
from lightrl_workshop.ranks import on_ranks
from lightrl_zoo import CISPO, GMPO, ClipCov
from torch import Tensor

from lightrl import (
    Algorithm,
    ConstantLength,
    EntropyBonus,
    GroupSampler,
    KLPenalty,
    Policy,
    PolicyOutput,
    Rollout,
    TensorLoss,
    TinyPolicy,
)
from lightrl.parts.base import Output
from lightrl.ranks import ALONE, Ranks

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")  # rollouts here are made off-policy

SOURCE = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")
ONCE = {"epochs": 1, "minibatches": 1, "old_logprobs": "rollout"}
ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "GRPO": lambda: GRPO(sampler=GroupSampler(4), kl=KLPenalty(estimator="k3", loss_coefficient=0.1), **ONCE),
    "DrGRPO": lambda: DrGRPO(sampler=GroupSampler(4), **ONCE),
    "DAPO": lambda: DAPO(sampler=GroupSampler(4), **ONCE),
    "DCPO": lambda: DCPO(sampler=GroupSampler(4), **ONCE),
    "GSPO": lambda: GSPO(sampler=GroupSampler(4), **ONCE),
    "RLOO": lambda: RLOO(sampler=GroupSampler(4), **ONCE),
    "CISPO": lambda: CISPO(sampler=GroupSampler(4), **ONCE),
    "GMPO": lambda: GMPO(sampler=GroupSampler(4), **ONCE),
    "ClipCov": lambda: ClipCov(sampler=GroupSampler(4), **ONCE),
    "GRPO with an entropy bonus": lambda: GRPO(sampler=GroupSampler(4), entropy=EntropyBonus(0.05), **ONCE),
}


def forward(policy: Policy, rollout: Rollout, algorithm: Algorithm) -> PolicyOutput:
    read = {name: output.compute for name, output in algorithm.outputs.items() if isinstance(output, Output)}
    found: PolicyOutput = policy(rollout.input_ids, rollout.response_mask, rollout.temperature, read)
    return found


def scores(rollout: Rollout) -> Tensor:
    return torch.tensor([CodePoints().score(p, c) for p, c in zip(rollout.prompts, rollout.completions, strict=True)])


def loss_of(algorithm: Algorithm, rollout: Rollout, policy: Policy, ranks: Ranks = ALONE, rank: int = 0) -> TensorLoss:
    with torch.no_grad():
        now = forward(policy, rollout, algorithm)
    return TensorLoss(
        algorithm,
        scores(rollout),
        rollout.group,
        rollout.response_mask,
        {"old_logprobs": rollout.rollout_logprobs, "ref_logprobs": now.logprobs},
        truncated=rollout.truncated,
        current=now,
        ranks=ranks,
        rank=rank,
    )


def gradient(algorithm: Algorithm, rollout: Rollout, parts: Iterable[Tensor]) -> Tensor:
    policy = SOURCE.build()
    loss = loss_of(algorithm, rollout, policy)
    for rows in parts:
        micro = rollout.select(rows)
        now = forward(policy, micro.padded(int(micro.lengths.max())), algorithm)
        loss(now.logprobs, rows, **now.outputs).backward()
    return torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in policy.parameters()])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_has_the_gradient_of_a_run_however_rows_are_cut(name: str) -> None:
    rollout = random_rollout(SOURCE.build())
    run = gradient_of_step(ALGORITHMS[name](), rollout, SOURCE)
    assert run.abs().max() > 1e-5
    order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
    for parts in ([torch.arange(16)], order.split(5), order.split(1)):
        ours = gradient(ALGORITHMS[name](), rollout, parts)
        # tied embeddings are twice in the state dict
        assert float((ours - run[: len(ours)]).abs().max()) <= 1e-12


@pytest.mark.parametrize("name", ["GRPO", "DAPO", "ClipCov", "RLOO"])
def test_shares_of_ranks_add_up_to_the_step(name: str) -> None:
    rollout, policy = random_rollout(SOURCE.build()), SOURCE.build()

    def share(rank: int, ranks: Ranks) -> float:
        mine = rollout.select((rollout.group % 2 == rank).nonzero()[:, 0])
        algorithm = ALGORITHMS[name]()
        loss = loss_of(algorithm, mine, policy, ranks, rank)
        now = forward(policy, mine, algorithm)
        return float(loss(now.logprobs, **now.outputs))

    algorithm = ALGORITHMS[name]()
    now = forward(policy, rollout, algorithm)
    whole = float(loss_of(algorithm, rollout, policy)(now.logprobs, **now.outputs))
    assert math.isclose(sum(on_ranks(2, share)), whole, rel_tol=1e-12, abs_tol=1e-14)


MASK = torch.tensor([[False, True, True, False], [False, True, False, False]])
OLD = torch.tensor([[0.0, -1.0, -2.0, 0.0], [0.0, -0.5, 0.0, 0.0]], dtype=torch.float64)


def small(algorithm: Algorithm, **changes: Any) -> TensorLoss:
    given = {"rewards": torch.tensor([1.0, 0.0]), "group": torch.tensor([0, 0]), "mask": MASK, "known": {"old_logprobs": OLD}} | changes
    return TensorLoss(algorithm, **given)


def dr_grpo() -> DrGRPO:
    return DrGRPO(sampler=GroupSampler(2), aggregation=ConstantLength(length=2), **ONCE)


def test_a_number_computed_by_hand() -> None:
    """Advantages 0.5 and -0.5; ratios e^0.1, e^0.5, which is clipped at 1.2, and e^-0.1; sums of tokens over 2 rows x 2 tokens."""
    loss = small(dr_grpo())
    new = OLD + torch.tensor([[9.0, 0.1, 0.5, 9.0], [9.0, -0.1, 9.0, 9.0]], dtype=torch.float64)  # 9: tokens of the prompt, or none
    expected = (-(0.5 * math.exp(0.1) + 0.5 * 1.2) + 0.5 * math.exp(-0.1)) / 4
    assert loss.rows.advantages.tolist() == [[0, 0.5, 0.5, 0], [0, -0.5, 0, 0]]
    assert (loss.denominators["policy_loss"].tokens, loss.denominators["policy_loss"].rows) == (3, 2)
    assert float(loss(new)) == pytest.approx(expected, rel=1e-12)
    assert float(loss(new[:1], torch.tensor([0])) + loss(new[1:, :2], torch.tensor([1]))) == pytest.approx(expected, rel=1e-12)


def test_a_row_without_reward_leaves_statistics_and_loss() -> None:
    three = {"group": torch.tensor([0, 0, 0]), "mask": MASK[[0, 1, 0]], "known": {"old_logprobs": OLD[[0, 1, 0]]}}
    with_failed = TensorLoss(dr_grpo(), torch.tensor([1.0, 0.0, math.nan]), **three)
    assert with_failed.rows.advantages[:2].tolist() == small(dr_grpo()).rows.advantages.tolist()
    assert with_failed.denominators["policy_loss"].tokens == 3
    nobody = TensorLoss(dr_grpo(), torch.full((3,), math.nan), **three)
    logprobs = OLD[[0, 1, 0]].clone().requires_grad_()
    nobody(logprobs).backward()
    assert logprobs.grad is not None
    assert logprobs.grad.abs().max() == 0


def test_rewards_of_tokens_are_those_of_their_row() -> None:
    per_token = torch.full((2, 4), math.nan)
    per_token[0, 1], per_token[0, 2], per_token[1, 1] = 0.25, 0.75, 0.0
    assert torch.equal(small(dr_grpo(), rewards=per_token).rows.advantages, small(dr_grpo()).rows.advantages)


@pytest.mark.parametrize(
    ("algorithm", "changes", "words"),
    [
        (dr_grpo, {"rewards": torch.zeros(3)}, ["rewards", "[2] or [2, 4]", "[3]"]),
        (dr_grpo, {"group": torch.zeros(3).long()}, ["group", "[2]", "[3]"]),
        (dr_grpo, {"known": {"old_logprobs": OLD[:, :3]}}, ["old_logprobs", "[2, 4]", "[2, 3]"]),
        (dr_grpo, {"known": {}}, ["DrGRPO", "old_logprobs", "nothing"]),
        (lambda: GRPO(**ONCE), {}, ["GRPO", "ref_logprobs", "known has old_logprobs"]),
        (lambda: PPO(**ONCE), {}, ["PPO", "values", "known has old_logprobs"]),
    ],
)
def test_it_says_what_is_missing(algorithm: Callable[[], Algorithm], changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError, match=words[0]) as refused:
        small(algorithm(), **changes)
    assert all(word in str(refused.value) for word in words), refused.value


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    """The rows of a rollout by their numbers."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"row": torch.tensor(row)}


@pytest.mark.parametrize("size", [16, 4, 1])
@pytest.mark.parametrize("name", ["GRPO", "DrGRPO", "GSPO", "GRPO with an entropy bonus"])
def test_has_the_gradient_of_a_run_in_the_trainer_of_transformers(tmp_path: Path, name: str, size: int) -> None:
    rollout, policy, algorithm = random_rollout(SOURCE.build()), SOURCE.build(), ALGORITHMS[name]()
    loss = loss_of(algorithm, rollout, policy)

    class Host(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: dict[str, Tensor], *others: Any, **options: Any) -> Tensor:
            rows = inputs["row"]
            now = forward(policy, rollout.select(rows), algorithm)
            # the host divides by the number of micro-batches
            return loss(now.logprobs, rows, **now.outputs) * self.args.gradient_accumulation_steps

    options = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=size,
        gradient_accumulation_steps=16 // size,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
    )
    before = torch.cat([p.detach().flatten().clone() for p in policy.parameters()])
    Host(model=policy.model, args=options, train_dataset=Rows()).train()
    moved = before - torch.cat([p.detach().flatten() for p in policy.parameters()])
    run = gradient_of_step(ALGORITHMS[name](), rollout, SOURCE)
    assert float((moved - run[: len(moved)]).abs().max()) <= 1e-12
