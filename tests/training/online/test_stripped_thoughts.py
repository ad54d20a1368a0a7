"""Turns that do not read what earlier ones thought: each is learnt from after what it has read, and an episode stays one row."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_workshop import quiet_trainer

from lightrl import (
    ActorCritic,
    Environment,
    EpisodeSeeds,
    FrozenReference,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    LossTerm,
    PolicyOptimization,
    Prompt,
    PromptData,
    Reply,
    ScoredRollout,
    TinyPolicy,
    TransformersEngine,
    TrunkOutput,
    TurnGAE,
)
from lightrl.policy.policy import Policy
from lightrl.policy.weights import TrainerWeights
from lightrl.rollout.loop import RolloutLoop
from lightrl.training.online.networks import dummy_batch

MARK = "<think>"


class Thinking(Environment):
    """Three turns, of which the first and the last begin within a thought that never ends; the first digit is rewarded."""

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt: Prompt, seed: int) -> str:
        self.turn, self.fault = 0, seed % 5 == 0 and prompt.columns.get("fails")
        return f"{seed % 1000}?{MARK}"

    def reply(self, completion: str) -> Reply:
        self.turn += 1
        if self.fault:
            raise ArithmeticError("not my day")
        earned = float(completion.removeprefix(MARK)[:1] in set("01234"))
        return Reply(f"{self.turn}?" + MARK * (self.turn == 2), earned, self.turn == 3)


def policy_source() -> TinyPolicy:
    return TinyPolicy(hidden=16, layers=2, heads=2, alphabet="0123456789?<>think")


def module(**changes: Any) -> PolicyOptimization:
    settings: dict[str, Any] = {
        "policy": policy_source(),
        "algorithm": GroupRelative(sampler=GroupSampler(group_size=4), advantage=GroupCentered()),
        "engine": TransformersEngine(max_new_tokens=6),
        "environment": Thinking(thoughts="strip"),
        "prompts_per_rollout": 3,
        "micro_batch_tokens": 64,
        "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-3),
    }
    # a turn that is cut at its limit ends the episode
    return PolicyOptimization(**{**settings, **changes})


class Kept(Callback):
    def __init__(self) -> None:
        self.numbers: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.numbers.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def fit(subject: PolicyOptimization, rollouts: int = 1) -> Kept:
    kept = Kept()
    trainer = quiet_trainer(max_epochs=rollouts, num_sanity_val_steps=0, callbacks=[kept])
    trainer.fit(subject, datamodule=PromptData(train=EpisodeSeeds(100)))
    return kept


def rollout(policy: Policy, thoughts: Any = "strip", **columns: Any) -> Any:
    loop = RolloutLoop(TransformersEngine(max_new_tokens=24, stop=list("0123456789")), Thinking(thoughts=thoughts))
    loop.update_weights(TrainerWeights(policy), 0)
    return loop.rollout([Prompt(id=str(i), text="", columns=columns) for i in range(6)], 3)


def engine() -> TransformersEngine:
    return TransformersEngine(max_new_tokens=24, stop=list("0123456789"))


def test_turns_read_what_was_answered_and_not_what_was_thought() -> None:
    policy = policy_source().build().eval()
    rows = rollout(policy)
    three = [row for row, episode in enumerate(rows.episodes) if episode.turns == 3]
    assert three
    for row in three:
        first, second, third = rows.episodes[row].readings
        asked = rows.input_ids[row, : first.start].tolist()
        said = rows.input_ids[row, second.start : second.start + second.length].tolist()
        read = [policy.decode(one.context) for one in (first, second, third)]
        assert list(first.context) == asked
        # the first turn was all thought, and the second one was not
        opened = read[0].removesuffix(MARK)
        assert read[1] == f"{opened}1?"
        assert read[2] == f"{read[1]}{policy.decode(said)}2?{MARK}"


def test_log_probs_are_those_of_each_turn_after_what_it_has_read() -> None:
    policy = policy_source().build().eval()
    rows = rollout(policy)
    for row, episode in enumerate(rows.episodes):
        for start, length, context in episode.readings:
            said = rows.input_ids[row, start : start + length]
            ids = torch.cat([torch.tensor(context), said])[None]
            mask = torch.arange(ids.shape[1])[None] >= len(context)
            alone = policy(ids, mask).logprobs[0, len(context) :]
            torch.testing.assert_close(rows.rollout_logprobs[row, start : start + length], alone.detach(), rtol=0, atol=2e-5)
    laid = rows.as_read()
    there = laid.at_rows(policy(laid.input_ids, laid.mask(rows.response_mask)).logprobs)
    torch.testing.assert_close(there.detach(), rows.rollout_logprobs, rtol=0, atol=2e-5)


def test_a_row_that_keeps_its_thoughts_is_read_as_it_is() -> None:
    policy = policy_source().build().eval()
    rows = rollout(policy, "keep")
    assert all(episode.readings == () for episode in rows.episodes)
    laid = rows.as_read()
    assert laid.input_ids is rows.input_ids
    assert laid.at_rows(rows.rollout_logprobs) is rows.rollout_logprobs


@pytest.mark.parametrize("algorithm", ["critic", "kl"])
def test_every_turn_has_the_ratio_1_before_the_first_step_with_a_critic_and_with_a_reference(algorithm: str) -> None:
    made: dict[str, Any] = {
        "critic": ActorCritic(advantage=TurnGAE(), epochs=2, minibatches=1),
        "kl": GroupRelative(sampler=GroupSampler(group_size=4), kl=KLPenalty(loss_coefficient=0.1), reference=FrozenReference()),
    }
    subject = module(algorithm=made[algorithm], engine=engine())
    kept = fit(subject, 2)
    assert all(numbers["ratio/first_pass_deviation"] < 1e-4 for numbers in kept.numbers)
    # the reference is the policy, before the first step
    assert algorithm == "critic" or kept.numbers[0]["kl"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("longest_packed", [None, 0])
def test_the_step_does_not_depend_on_how_rows_are_cut(longest_packed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def weights(micro_batch_tokens: int | None) -> torch.Tensor:
        subject = module(engine=engine(), micro_batch_tokens=micro_batch_tokens)
        if longest_packed is not None:
            monkeypatch.setattr("lightrl.policy.policy.longest_packed", lambda trunk: longest_packed)
        fit(subject, 2)
        return torch.cat([p.detach().flatten() for p in subject.policy.parameters()])

    whole, cut = weights(None), weights(48)
    torch.testing.assert_close(whole, cut, rtol=0, atol=1e-6)


def test_a_rollout_with_contexts_of_its_own_goes_through_a_checkpoint_and_a_row_of_a_failed_episode_stays_in_its_place() -> None:
    rows = rollout(policy_source().build().eval(), fails=True)
    assert set(rows.finish_reason) >= {"failed"}
    rewards = {"reward_parts": {}, "outcomes": {}, "scorable": torch.ones(len(rows), dtype=torch.bool)}
    scored = ScoredRollout(**{field.name: getattr(rows, field.name) for field in fields(rows)}, **rewards)
    back = ScoredRollout.from_state(torch.load(_saved(scored.to_state()), weights_only=True))
    assert back.episodes == rows.episodes
    chosen = torch.tensor([4, 1])
    assert [len(laid) for laid in (back.select(chosen).as_read().row.unique(), chosen)] == [2, 2]
    assert len(dummy_batch(scored).as_read().input_ids) == 1


def _saved(state: dict[str, Any]) -> Any:
    import io

    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


class Inside(LossTerm):
    """A term that reads the layers at every token."""

    @property
    def outputs(self) -> tuple[Any, ...]:
        return (LayerNorms(),)

    def weights(self, experience: Any) -> torch.Tensor:
        return experience.token_weight

    def loss(self, experience: Any, output: Any) -> torch.Tensor:
        return output.needed("layer_norms")[..., 0]


class LayerNorms(TrunkOutput):
    """Norms of the last layer's states."""

    name = "layer_norms"

    def listen(self, trunk: Any) -> Any:
        raise NotImplementedError


def test_parts_that_read_layers_at_every_token_are_refused() -> None:
    algorithm = GroupRelative(sampler=GroupSampler(group_size=4), entropy=Inside(1.0))
    with pytest.raises(ValueError, match=r"environment\.thoughts is strip.*layer_norms"):
        fit(module(algorithm=algorithm))


def test_a_misspelt_choice_about_thoughts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs thoughts to be 'keep' or 'strip', got thoughts='stripped'"):
        Thinking(thoughts="stripped")
