"""Runs over episodes: every turn is learnt from, whatever an environment does is counted, and a resumed run is the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightrl_workshop import hand_made_experience, quiet_trainer, rollouts_with

from lightrl import (
    ActorCritic,
    Algorithm,
    EpisodeSeeds,
    GroupCentered,
    GroupRelative,
    GroupSampler,
    PolicyOptimization,
    Prompt,
    PromptData,
    PromptSource,
    RowReward,
    SymmetricClip,
    TinyPolicy,
    TokenMean,
    TransformersEngine,
    TurnGAE,
    TurnNormalized,
)
from lightrl.ops.turns import turn_starts

DIGITS = tuple("0123456789")
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _digit_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def game(name: str = "InlineDigitGame", **settings: Any) -> Any:
    import digit_game

    return getattr(digit_game, name)(**{"max_turns": 4, **settings})


def module(**changes: Any) -> PolicyOptimization:
    settings: dict[str, Any] = {
        "policy": TinyPolicy(hidden=16, layers=1, heads=2),
        "algorithm": GroupRelative(sampler=GroupSampler(group_size=4), advantage=GroupCentered()),
        "engine": TransformersEngine(max_new_tokens=24, stop=list(DIGITS)),
        "prompts_per_rollout": 4,
        "micro_batch_tokens": 256,
        "optimizer": lambda p: torch.optim.AdamW(p, lr=1e-3),
    }
    settings["environment"] = changes.pop("environment", None) or game()
    return PolicyOptimization(**{**settings, **changes})


def frozen(**changes: Any) -> PolicyOptimization:
    return module(optimizer=lambda p: torch.optim.SGD(p, lr=0.0), **changes)


class Rollouts(Callback):
    """Keeps the rows and the numbers of every rollout."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.numbers: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.rows.append(pl_module.experience)
        self.numbers.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def fit(subject: PolicyOptimization, rollouts: int = 1, data: PromptSource | None = None, **settings: Any) -> Rollouts:
    kept = Rollouts()
    trainer = quiet_trainer(max_epochs=rollouts, num_sanity_val_steps=0, callbacks=[kept, *settings.pop("callbacks", [])])
    trainer.fit(subject, datamodule=PromptData(train=data or EpisodeSeeds(100)), **settings)
    return kept


def test_rewards_of_an_environment_train_and_every_turn_has_the_ratio_1() -> None:
    subject = module()
    kept = fit(subject)
    numbers, rows = kept.numbers[0], kept.rows[0]
    assert numbers["ratio/max_deviation"] < 1e-4
    assert 2 <= numbers["episodes/turns"] <= 4
    assert numbers["episodes/turns"] == turn_starts(rows.response_mask).sum() / len(rows)
    assert 0.8 < numbers["episodes/read"] <= 1.1
    assert numbers["environment/answered"] == turn_starts(rows.response_mask).sum()
    earned = [sum(reward or 0.0 for reward in episode.rewards) for episode in rows.episodes]
    assert rows.rewards.tolist() == earned
    assert len(set(earned)) > 1
    before = TinyPolicy(hidden=16, layers=1, heads=2).build().state_dict()
    assert any(not torch.equal(value, before[name]) for name, value in subject.policy.state_dict().items())


@pytest.mark.parametrize("slices", [1, 3])
def test_log_probs_of_episodes_are_those_of_a_teacher_forced_forward(slices: int) -> None:
    subject = frozen(environment=game(slices=slices))
    rows = fit(subject).rows[0]
    with torch.no_grad():
        expected = subject.policy(rows.input_ids, rows.response_mask, rows.temperature).logprobs
    gaps = rows.attention_mask & ~rows.response_mask & (rows.response_mask.cumsum(1) > 0)
    assert gaps.any(1).all()
    assert (rows.rollout_logprobs - expected).abs().max() < 1e-5
    assert (rows.rollout_logprobs[~rows.response_mask] == 0).all()


def test_what_the_environment_said_stands_between_the_turns() -> None:
    subject = frozen()
    rows = fit(subject).rows[0]
    for i, episode in enumerate(rows.episodes):
        ids = rows.input_ids[i, rows.attention_mask[i]].tolist()
        # the last reply closes the episode, and no policy reads it
        said = [message["content"] for message in episode.messages[: 2 * episode.turns]]
        assert subject.policy.decode(ids) == "".join(said)
        assert rows.completions[i] == said[-1]


class Facts(RowReward):
    """Remembers what it was told."""

    runs = "inline"
    told: list[dict[str, Any]]

    def score(self, prompt: Prompt, completion: str, *, messages: Any, turns: Any, finish_reason: Any, state: Any) -> float:
        type(self).told.append(locals())
        return float(turns)


def test_rewards_are_told_of_the_episode_they_ask_about() -> None:
    Facts.told = []
    rows = fit(module(rewards={"facts": Facts()})).rows[0]
    assert len(Facts.told) == len(rows)
    for told, episode, reason in zip(Facts.told, rows.episodes, rows.finish_reason, strict=True):
        assert told["turns"] == told["state"]["turn"] == episode.turns == len(episode.rewards)
        assert told["finish_reason"] == reason == "stop"
        assert [message["role"] for message in told["messages"]] == ["user", "assistant"] * episode.turns + ["user"]
        assert told["messages"][-2]["content"] == told["completion"]
    both = [told["turns"] + sum(episode.rewards) for told, episode in zip(Facts.told, rows.episodes, strict=True)]
    assert rows.rewards.tolist() == both


FAULTS = ["raises at begin", "raises at turn 2", "nan at turn 1", "hangs at turn 2", "never ends", "", "", ""]


class Faulty(PromptSource):
    """Prompts whose environments fail in their own ways."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults

    @property
    def size(self) -> int:
        return len(self.faults)

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="", columns={"fault": self.faults[index]})


def test_whatever_an_environment_does_is_counted_and_never_becomes_a_reward() -> None:
    subject = module(environment=game("DigitGame", timeout_s=1.0, max_error_rate=1.0), prompts_per_rollout=len(FAULTS))
    kept = fit(subject, data=Faulty(FAULTS))
    numbers, rows = kept.numbers[0], kept.rows[0]
    faults = [prompt.columns["fault"] for prompt in rows.prompts]
    failed = torch.tensor([fault not in ("", "never ends") for fault in faults])
    assert numbers["environment/failed"] == 0.5
    assert numbers["environment/timeout"] == 0.125
    assert numbers["unscorable"] == 16
    assert numbers["episodes/ended_failed"] == 0.5
    assert numbers["episodes/ended_turns"] == 0.125
    assert rows.scorable.tolist() == (~failed).tolist()
    assert (rows.token_weight[failed] == 0).all()
    assert (rows.advantages[failed] == 0).all()
    assert (rows.token_weight[~failed] == rows.response_mask[~failed]).all()
    assert rows.reward_parts["environment"][failed].isnan().all()
    assert numbers["reward"] == pytest.approx(rows.rewards[~failed].mean().item())
    assert numbers["rewards/environment/mean"] == pytest.approx(numbers["reward"])
    said = {fault: episode.failure for fault, episode in zip(faults, rows.episodes, strict=True) if fault}
    assert "ArithmeticError: not my day" in said["raises at begin"]
    assert "ArithmeticError: not my day" in said["raises at turn 2"]
    assert "nan, expected a finite number" in said["nan at turn 1"]
    assert "1" in said["hangs at turn 2"]
    assert said["never ends"] is None


def test_a_spent_error_budget_ends_the_run_and_says_why() -> None:
    subject = module(environment=game(max_error_rate=0.1, error_window=32), prompts_per_rollout=8)
    with pytest.raises(RuntimeError, match=r"(?s)InlineDigitGame failed on 12 of the last 32 episodes.*ArithmeticError.*max_error_rate"):
        fit(subject, data=Faulty(["raises at begin", "raises at turn 2", "nan at turn 1", *["never ends"] * 5]))
    assert subject.trainer.global_step == 0


def test_a_resumed_run_makes_the_same_numbers(tmp_path: Path) -> None:
    one, resumed = module(), module()
    whole = fit(one, 3)
    saver = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_epochs=1)
    part = fit(module(), 1, callbacks=[saver])
    rest = fit(resumed, 3, ckpt_path=saver.best_model_path, weights_only=True)
    for mine, other in zip(part.rows + rest.rows, whole.rows, strict=True):
        assert torch.equal(mine.input_ids, other.input_ids)
        assert [episode.state for episode in mine.episodes] == [episode.state for episode in other.episodes]
    for name, value in one.policy.state_dict().items():
        assert torch.equal(value, resumed.policy.state_dict()[name]), name


def test_another_data_epoch_has_other_seeds_and_a_group_has_one() -> None:
    kept = fit(module(), 2, data=EpisodeSeeds(4))
    first, second = ({(p.id, e.state["seed"]) for p, e in zip(rows.prompts, rows.episodes, strict=True)} for rows in kept.rows)
    assert len(first) == len(second) == len({seed for _, seed in first | second}) / 2 == 4
    assert {name for name, _ in first} == {name for name, _ in second}


@pytest.mark.parametrize(
    "algorithm",
    [
        lambda: GroupRelative(sampler=GroupSampler(group_size=4), advantage=TurnNormalized()),
        lambda: ActorCritic(sampler=GroupSampler(group_size=4), advantage=TurnGAE(), clip=SymmetricClip(), aggregation=TokenMean()),
    ],
)
def test_advantages_per_turn_train(algorithm: Callable[[], Algorithm]) -> None:
    kept = fit(module(algorithm=algorithm()))
    rows, numbers = kept.rows[0], kept.numbers[0]
    assert numbers["ratio/max_deviation"] < 1e-4
    per_row = [len(row[starts].unique()) for row, starts in zip(rows.advantages, turn_starts(rows.response_mask), strict=True)]
    assert max(per_row) > 1
    assert rows.advantages[rows.response_mask].std() > 0.1


def test_an_evaluation_plays_episodes_and_predictions_tell_them() -> None:
    subject = frozen()
    trainer = quiet_trainer()
    data = PromptData(train=EpisodeSeeds(30), validation=EpisodeSeeds(5), test=EpisodeSeeds(3))
    found = trainer.validate(subject, data, verbose=False)[0]
    assert 2 <= found["val/episodes/turns"] <= 4
    assert found["val/environment/failed"] == 0
    assert found["val/reward"] == pytest.approx(found["val/rewards/environment/mean"])
    told = [row for batch in trainer.predict(subject, data) for row in batch]
    assert len(told) == 3
    for row in told:
        assert row["turns"] >= 2
        assert len(row["messages"]) == 2 * row["turns"] + 1
        assert 0 <= row["rewards"]["environment"] <= row["turns"]


def test_turns_of_a_row_have_what_was_read_and_said() -> None:
    """Positions, texts and rewards of each turn, against the tokens and the record of the row."""
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    engine = TransformersEngine(max_new_tokens=24, stop=list(DIGITS))
    rollout = rollouts_with(policy, engine, game()).rollout([Prompt(id=f"p{i}", text="") for i in range(4)], 2)
    several = 0
    for row, episode in enumerate(rollout.episodes):
        turns = rollout.turns(row)
        several += len(turns) > 2
        assert len(turns) == episode.turns
        assert tuple(turn.reward for turn in turns) == episode.rewards
        ids, end = rollout.input_ids[row].tolist(), 0
        for turn in turns:
            assert (turn.read.start, turn.read.stop) == (end, turn.said.start)
            assert rollout.response_mask[row, turn.said].all()
            assert not rollout.response_mask[row, turn.read].any()
            assert turn.text == policy.decode(ids[turn.said])
            assert "".join(message["content"] for message in turn.messages) == policy.decode(ids[turn.read])
            end = turn.said.stop
        assert not rollout.response_mask[row, end:].any()
    assert several
    again = type(rollout).concat([rollout.select([3]), rollout.select([1])])
    assert again.turns(1) == rollout.turns(1)


def test_of_turns_that_nothing_separates_only_positions_are_known() -> None:
    rows = hand_made_experience([1.0, 0.0], lengths=[4, 2], gaps=[[1, 2], []])
    first, second = rows.turns(0)
    assert (first.read, first.said, second.read, second.said) == (slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6))
    assert (first.text, first.messages, second.reward) == (None, (), None)
    (only,) = rows.turns(1)
    assert (only.said, only.text, only.messages) == (slice(2, 4), "xx", ({"role": "user", "content": "ab"},))
    nothing = replace(rows, response_mask=torch.zeros_like(rows.response_mask))
    assert nothing.turns(0) == []


def test_a_record_of_before_turns_had_places_can_be_read() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    engine = TransformersEngine(max_new_tokens=24, stop=list(DIGITS))
    (episode,) = rollouts_with(policy, engine, game()).rollout([Prompt(id="p", text="")], 1).episodes
    assert type(episode).from_json(episode.to_json()) == episode
    old = {name: value for name, value in episode.to_json().items() if name != "own"}
    assert type(episode).from_json(old) == replace(episode, own=())
