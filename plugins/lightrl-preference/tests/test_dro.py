"""DRO: losses and gradients by hand, and runs on rollouts and on given completions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightrl_preference import DRO, DROV, DROLoss, GivenReward, GivenSampler
from lightrl_workshop import CodePoints, ReplayedRollouts, assert_same_gradient, quiet_trainer, random_rollout
from lightrl_workshop.ranks import on_ranks
from torch import Tensor

from lightrl import (
    Algorithm,
    DigitSorting,
    Environment,
    GroupSampler,
    JsonLines,
    Policy,
    PolicyOptimization,
    PolicyOutput,
    Prompt,
    PromptData,
    Ranks,
    Reply,
    Rollout,
    TensorLoss,
    TinyPolicy,
    TransformersEngine,
    ValueModel,
)
from lightrl.ranks import ALONE

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import dro_step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the engine.s log-probs")  # rollouts here are made off-policy

SOURCE = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")

# A prompt token, and completions of two tokens and of one: log pi -3 and -1, log pi_ref -4 and -0.5, so rho 1 and -0.5.
MASK = torch.tensor([[False, True, True], [False, True, False]])
NOW = torch.tensor([[0.0, -1.0, -2.0], [0.0, -1.0, 0.0]], dtype=torch.float64)
REFERENCE = torch.tensor([[0.0, -1.5, -2.5], [0.0, -0.5, 0.0]], dtype=torch.float64)
OLD = torch.tensor([[0.0, -2.0, -0.5], [0.0, -3.0, 0.0]], dtype=torch.float64)
"""Of another policy: the loss has no ratio to it."""
VALUES = torch.tensor([[9.0, 0.3, 9.0], [9.0, -0.1, 9.0]], dtype=torch.float64)
"""That of the prompt is before the first token of the completion: 0.3 and -0.1."""


def step_loss(algorithm: Algorithm, current: Tensor, **known: Tensor) -> TensorLoss:
    given = {"old_logprobs": OLD, "ref_logprobs": REFERENCE, **known}
    rewards, group = torch.tensor([1.0, 0.0]), torch.tensor([0, 0])
    return TensorLoss(algorithm, rewards, group, MASK, given, current=PolicyOutput(current))


def test_a_learnt_value_by_hand() -> None:
    """tau 0.5, so r - tau rho is 0.5 and 0.25, and less V 0.2 and 0.35.

    The policy's terms are 0.2^2 / (2 x 0.5) = 0.04 and 0.1225, the value's 0.02 and 0.06125. The policy's gradient is -(r - V) + tau rho:
    -0.7 + 0.5 and -0.1 - 0.25, and the value's V - r + tau rho: the same here. Both are means over two rows.
    """
    now, values = NOW.clone().requires_grad_(), VALUES.clone().requires_grad_()
    loss = step_loss(DROV(dro=DROLoss(tau=0.5)), NOW, values=VALUES)
    found = loss(now, values=values)
    assert float(found.detach()) == pytest.approx((0.04 + 0.02 + 0.1225 + 0.06125) / 2)
    found.backward()
    assert now.grad is not None
    assert values.grad is not None
    assert now.grad.tolist() == [pytest.approx([0, -0.1, -0.1]), pytest.approx([0, -0.175, 0])]
    assert values.grad.tolist() == [pytest.approx([0, -0.1, 0]), pytest.approx([0, -0.175, 0])]


def test_coefficients_weigh_both_terms_and_the_value_alone() -> None:
    now, values = NOW.clone().requires_grad_(), VALUES.clone().requires_grad_()
    loss = step_loss(DROV(dro=DROLoss(tau=0.5, value_coefficient=3.0, coefficient=2.0)), NOW, values=VALUES)
    found = loss(now, values=values)
    assert float(found.detach()) == pytest.approx(0.04 + 0.1225 + 3 * (0.02 + 0.06125))
    found.backward()
    assert now.grad is not None
    assert values.grad is not None
    assert now.grad[0].tolist() == pytest.approx([0, -0.2, -0.2])
    assert values.grad[0].tolist() == pytest.approx([0, -0.6, 0])


def test_the_value_of_a_group_by_hand() -> None:
    """V is the mean of 0.5 and 0.25; the errors are 0.125 and -0.125, and each loss is 0.125^2 / (2 x 0.5)."""
    now = NOW.clone().requires_grad_()
    algorithm = DRO(sampler=GroupSampler(2), dro=DROLoss(tau=0.5, value="group"))
    found = step_loss(algorithm, NOW)(now)
    assert float(found.detach()) == pytest.approx(0.015625)
    found.backward()
    assert now.grad is not None
    assert now.grad.tolist() == [pytest.approx([0, -0.0625, -0.0625]), pytest.approx([0, 0.0625, 0])]


def test_the_best_policy_has_no_loss() -> None:
    """Where tau rho = r - V on each completion, as of pi = pi_ref exp((r - V) / tau)."""
    best = REFERENCE.clone()
    best[:, 1] += torch.tensor([1.0 - 0.25, 0.0 - 0.25], dtype=torch.float64) / 0.5
    now = best.clone().requires_grad_()
    found = step_loss(DRO(sampler=GroupSampler(2), dro=DROLoss(tau=0.5, value="group")), best)(now)
    found.backward()
    assert now.grad is not None
    assert float(found.detach()) == pytest.approx(0, abs=1e-12)
    assert now.grad.abs().max() < 1e-7


@pytest.mark.parametrize("name", dro_step.ALGORITHMS)
def test_micro_batches_order_and_padding_do_not_change_the_gradient(name: str) -> None:
    rollout = random_rollout(SOURCE.build())
    whole = dro_step.gradient(name, rollout)
    shuffled = rollout.select(torch.randperm(16, generator=torch.Generator().manual_seed(1)))
    for other, budget in ((rollout, 32), (shuffled, 64), (rollout.padded(40), 300)):
        assert_same_gradient(whole, dro_step.gradient(name, other, budget))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["group", pytest.param("critic", marks=pytest.mark.rare)])
def test_nor_does_a_second_process(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "dro_step.py"), name, "2", str(tmp_path / "gradient.pt")]
    # DDP would begin with the seed that an earlier test has left there
    own = {name: value for name, value in os.environ.items() if name != "PL_GLOBAL_SEED"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=own)
    assert done.returncode == 0, done.stderr
    assert_same_gradient(dro_step.gradient(name), torch.load(tmp_path / "gradient.pt"))


def rewards_of(rollout: Rollout) -> Tensor:
    scores = [CodePoints().score(prompt, text) for prompt, text in zip(rollout.prompts, rollout.completions, strict=True)]
    return torch.tensor(scores, dtype=torch.float64)


def gradient_of_share(policy: Policy, rows: Rollout, ranks: Ranks, rank: int) -> Tensor:
    now = policy(rows.input_ids, rows.response_mask)
    known = {"old_logprobs": rows.rollout_logprobs, "ref_logprobs": now.logprobs.detach() - 0.1}
    loss = TensorLoss(
        DRO(), rewards_of(rows), rows.group, rows.response_mask, known, current=PolicyOutput(now.logprobs.detach()), ranks=ranks, rank=rank
    )
    loss(now.logprobs).backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


def test_nor_does_the_number_of_ranks() -> None:
    rollout = random_rollout(SOURCE.build())
    policies = [SOURCE.build() for _ in range(3)]

    def share(rank: int, ranks: Ranks) -> Tensor:
        # three groups here and one there
        rows = ((rollout.group == 1) == bool(rank)).nonzero()[:, 0]
        return gradient_of_share(policies[rank], rollout.select(rows), ranks, rank)

    one, other = on_ranks(2, share)
    assert_same_gradient(gradient_of_share(policies[2], rollout, ALONE, 0), one + other)


def replay(rollout: Rollout) -> Any:
    class Replay(Callback):
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            pl_module.collector.rollouts = ReplayedRollouts(rollout)

    return Replay()


def logprobs_of(policy: Policy, rollout: Rollout) -> Tensor:
    found: Tensor = policy(rollout.input_ids, rollout.response_mask).logprobs
    return torch.where(rollout.response_mask, found, 0.0).sum(1)


def test_several_steps_are_those_of_a_loop_of_ones_own() -> None:
    """Five steps of plain SGD on one rollout of another policy, in micro-batches; V and rho are those of each step."""
    rollout = random_rollout(SOURCE.build(), off_policy=0.8)
    module = PolicyOptimization(
        policy=SOURCE,
        algorithm=DRO(epochs=5, dro=DROLoss(tau=0.2, value="group"), old_logprobs="rollout"),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        prompts_per_rollout=4,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.02),
        max_grad_norm=None,
    )
    trainer = quiet_trainer(max_epochs=1, callbacks=[replay(rollout)])
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=100)))
    assert trainer.global_step == 5

    policy, rewards = SOURCE.build(), rewards_of(rollout)
    with torch.no_grad():
        reference = logprobs_of(policy, rollout)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.02)
    for _ in range(5):
        held = rewards - 0.2 * (logprobs_of(policy, rollout) - reference)
        value = held.detach().reshape(4, 4).mean(1).repeat_interleave(4)
        optimizer.zero_grad()
        ((held - value).square() / (2 * 0.2)).mean().backward()
        optimizer.step()
    start, ours, theirs = SOURCE.build().state_dict(), module.policy.state_dict(), policy.state_dict()
    moved = torch.cat([(theirs[name] - start[name]).flatten() for name in start])
    # the rewards of a run are float32
    assert_same_gradient(moved, torch.cat([(ours[name] - start[name]).flatten() for name in start]), 1e-6)


def given_rows(folder: Path) -> PromptData:
    """Of each of eight prompts one good completion and one bad one, on rows of their own."""
    rows = [{"question": f"{i}{i}=", "completion": text, "score": score} for i in range(8) for text, score in (("1234", 1.0), ("98", 0.25))]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return PromptData(train=JsonLines(str(file), prompt="question", answer=None, chat=False))


def test_an_offline_run_learns_the_values_and_prefers_what_is_better(tmp_path: Path) -> None:
    data = given_rows(tmp_path)
    seen: list[dict[str, float]] = []

    class Logged(Callback):
        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            seen.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    torch.manual_seed(0)
    module = PolicyOptimization(
        policy=SOURCE,
        algorithm=DROV(sampler=GivenSampler("completion"), critic=ValueModel(learning_rate=0.02)),
        rewards={"given": GivenReward("score", completion="completion")},
        engine=TransformersEngine(max_new_tokens=8),
        prompts_per_rollout=16,
        micro_batch_tokens=64,
        optimizer=lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.0),
    )
    quiet_trainer(max_epochs=40, callbacks=[Logged()]).fit(module, datamodule=data)
    assert seen[0]["reward"] == pytest.approx(0.625)
    assert seen[-1]["dro_loss"] < 0.3 * seen[0]["dro_loss"]
    assert seen[-1]["policy_loss"] == 0
    assert seen[-1]["dro/value"] > 0.2
    assert "value_loss" not in seen[0]
    before, after = SOURCE.build(), module.policy
    with torch.no_grad():
        encoded = [after.encode_completion(Prompt(id="p", text="33="), text) for text in ("1234", "98")]
        gains = []
        for one in encoded:
            ids = torch.tensor([one.ids])
            mask = torch.arange(len(one.ids))[None] >= 3
            gains.append(float((after(ids, mask).logprobs - before(ids, mask).logprobs).sum()))
    assert gains[0] > gains[1] + 1


def test_a_critic_that_the_loss_fits_makes_no_passes_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"DROLoss in dro fits the critic .* critic\.warmup_rollouts"):
        DROV(critic=ValueModel(warmup_rollouts=1))


def test_a_run_needs_rewards_though_its_advantage_reads_none() -> None:
    assert DRO().needs_rewards
    with pytest.raises(ValueError, match=r"model\.rewards is empty"):
        PolicyOptimization(policy=SOURCE, algorithm=DRO(), rewards={})


class Game(Environment):
    """Would go on after the first turn."""

    def begin(self, prompt: Prompt, seed: int) -> str:
        return "1="

    def reply(self, completion: str) -> Reply:
        return Reply("2=")


def test_given_completions_beside_an_environment_of_episodes_are_refused_before_the_first_rollout() -> None:
    with pytest.raises(ValueError, match=r"GivenSampler has completions that somebody else wrote.*Game plays episodes"):
        PolicyOptimization(
            policy=SOURCE,
            algorithm=DROV(sampler=GivenSampler("completion")),
            rewards={"given": GivenReward("score", completion="completion")},
            environment=Game(),
        )


def test_given_rewards_are_those_of_the_given_completion() -> None:
    reward = GivenReward("score", completion="said")
    prompt = Prompt(id="a", text="1=", columns={"said": "2", "score": True})
    assert reward.score(prompt, "2") == 1.0
    assert reward.score(prompt, "3") is None
    assert reward.score(Prompt(id="a", text="1=", columns={"said": "2", "score": None}), "2") is None
    with pytest.raises(ValueError, match=r"prompt 'a': column 'score' is not there. It has: said"):
        reward.check_prompt(Prompt(id="a", text="1=", columns={"said": "2"}))
    with pytest.raises(ValueError, match=r"column 'score' must hold a number, true or false, got 'good'"):
        reward.check_prompt(Prompt(id="a", text="1=", columns={"said": "2", "score": "good"}))
    with pytest.raises(ValueError, match=r"prompt 'a' has no text in the column 'said'.* Its columns: score"):
        reward.check_prompt(Prompt(id="a", text="1=", columns={"score": 1}))


@pytest.mark.parametrize(("arguments", "said"), [({"tau": 0.0}, "tau > 0"), ({"value": "none"}, "'critic' or 'group'")])
def test_impossible_arguments_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DROLoss(**arguments)


def test_the_value_of_a_group_wants_whole_groups_in_a_step() -> None:
    with pytest.raises(ValueError, match=r"DROLoss in dro .*minibatch_of"):
        DRO(minibatches=2, minibatch_of="rows")
    assert DROV(minibatches=2, minibatch_of="rows").minibatch_of == "rows"
