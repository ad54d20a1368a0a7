"""What an environment says of episodes and turns reaches the parts that ask for it, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightrl_curriculum import EnvironmentByColumn
from lightrl_runs.records.packed_rows import pack, unpack
from lightrl_workshop import CodePoints, assert_same_gradient, contract_tests, quiet_trainer, rollouts_with

from lightrl import (
    DecoupledClip,
    Environment,
    GroupRelative,
    PolicyOptimization,
    Prompt,
    PromptData,
    Reply,
    Reversal,
    Rollout,
    SingleTurn,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.ops.turns import turn_numbers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import credited_turns  # noqa: E402
from credited_turns import Credited, CreditedTurns, Larger, gradient  # noqa: E402

test_contract = contract_tests(credited_turns)

PROMPTS = [Prompt(id=str(i), text=f"{i}=") for i in range(3)]
POLICY = TinyPolicy(hidden=16, layers=1, heads=2)


def rolled(environment: Environment, max_new_tokens: int = 5, prompts: list[Prompt] = PROMPTS) -> Rollout:
    return rollouts_with(POLICY.build(), TransformersEngine(max_new_tokens, stop=["1", "2"]), environment).rollout(prompts, 4)


def module(environment: Environment, algorithm: GroupRelative | None = None) -> PolicyOptimization:
    return PolicyOptimization(
        policy=POLICY,
        algorithm=algorithm or Credited(),
        rewards={"codes": CodePoints()},
        engine=TransformersEngine(max_new_tokens=16),
        environment=environment,
        prompts_per_rollout=4,
    )


def expected_of(rollout: Rollout) -> tuple[list[float], list[list[float]]]:
    """The numbers by hand, from what the policy has said: good turns, and the credit of each turn that was answered."""
    told = []
    for row, episode in enumerate(rollout.episodes):
        said = [message["content"] for message in episode.messages if message["role"] == "assistant"]
        earned = [sum(character in "56789" for character in text) / max(len(text), 1) for text in said]
        # a turn that was cut is not answered
        heard = earned[:-1] if rollout.finish_reason[row] == "length" else earned
        told.append((float(sum(c > 0.25 for c in heard)), [0.0 if k == 1 or k >= len(heard) else c for k, c in enumerate(earned)]))
    return [good for good, _ in told], [earned for _, earned in told]


def test_a_number_of_a_turn_stands_on_its_tokens_and_one_of_an_episode_on_its_row() -> None:
    rollout = rolled(Larger())
    good, credit = expected_of(rollout)
    assert {"stop", "length"} == set(rollout.finish_reason), "some turns are cut and never answered"
    assert rollout.extra("good_turns").tolist() == good
    turns, found = turn_numbers(rollout.response_mask), rollout.extra("credit")
    for row, of_turns in enumerate(credit):
        for turn, value in enumerate(of_turns):
            assert torch.equal(found[row, turns[row] == turn].unique(), torch.tensor([value])), (row, turn)
    assert not found[~rollout.response_mask].any()
    assert found.unique().numel() > 3


def test_every_declared_extra_is_there_also_where_nothing_was_said_of_it() -> None:
    rollouts = rollouts_with(POLICY.build(), TransformersEngine(5), Larger())
    assert {name: list(extra.shape) for name, extra in rollouts.rollout([], 4).extras.items()} == {"good_turns": [0], "credit": [0, 1]}
    several = EnvironmentByColumn({"larger": Larger(), "once": SingleTurn()}, column="game", max_turns=3)
    prompts = [Prompt(id=name, text="1=", columns={"game": name}) for name in ("once", "larger")]
    found = rolled(several, 16, prompts)
    assert not found.extra("credit")[:4].any()
    assert found.extra("credit")[4:].any()


class Kept(Callback):
    """Keeps the rows that were learnt from."""

    rows: Any

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.rows = pl_module.experience


def test_an_advantage_reads_them_and_a_record_keeps_them() -> None:
    kept, subject = Kept(), module(Larger())
    quiet_trainer(max_epochs=1, callbacks=[kept]).fit(subject, datamodule=PromptData(train=Reversal(examples=20)))
    rows = kept.rows
    good, _ = expected_of(rows)
    centred = rows.rewards - rows.rewards.view(-1, 4).mean(1).repeat_interleave(4)
    weight = rows.extra("credit") * (1 + torch.tensor(good))[:, None]
    torch.testing.assert_close(rows.advantages, torch.where(rows.response_mask, centred[:, None] * weight, 0.0))
    again = unpack(pack(rows))[0]["extras"]
    assert all(torch.equal(again[name], rows.extra(name)) for name in ("credit", "good_turns"))


class Misspelt(Larger):
    """Declares another name."""

    gives_per_turn = frozenset({"credits"})


class OfEpisodes(Larger):
    """One credit for the whole episode."""

    gives = frozenset({"credit", "good_turns"})
    gives_per_turn = frozenset()


class TwoGivers(DecoupledClip):
    """Prepares what the environment gives."""

    gives = frozenset({"credit"})


REFUSED = [
    (SingleTurn(), Credited(), "CreditedTurns needs credit, good_turns for each row, and neither the sampler GroupSampler nor the envi"),
    (Misspelt(), Credited(), r"needs credit for each row, .* extras are: credits \(of Misspelt\), good_turns \(of Misspelt\)"),
    (OfEpisodes(), Credited(), "CreditedTurns reads credit per token, and OfEpisodes gives one number for an episode"),
    (Larger(), Credited(clip=TwoGivers()), "Larger and TwoGivers both leave the extra 'credit'"),
]


@pytest.mark.parametrize(("environment", "algorithm", "message"), REFUSED, ids=["nobody", "misspelt", "other shape", "two"])
def test_what_does_not_fit_is_refused_before_the_first_rollout(environment: Environment, algorithm: GroupRelative, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module(environment, algorithm)


def test_environments_that_mean_two_things_by_a_name_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="credit is a number of a turn in one environment and of an episode in another"):
        EnvironmentByColumn({"one": Larger(), "other": OfEpisodes()})


def test_a_reply_with_a_name_that_is_not_declared_fails_its_episode() -> None:
    class Careless(Larger):
        def reply(self, completion: str) -> Reply:
            return Reply("so", done=True, extras={"cerdit": 1.0})

    rollout = rolled(Careless())
    failures = [episode.failure for episode in rollout.episodes if episode.failure is not None]
    assert failures
    assert "has 'cerdit', and the class declares credit, good_turns" in failures[0]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the engine.s log-probs")
def test_one_and_two_ranks_take_the_same_step(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    command = [sys.executable, HERE / "credited_turns.py", "2", tmp_path / "gradient.pt"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_same_gradient(gradient(1), torch.load(tmp_path / "gradient.pt"))


def test_unused_extras_change_nothing() -> None:
    class Silent(Larger):
        gives = gives_per_turn = frozenset()

        def reply(self, completion: str) -> Reply:
            return super().reply(completion)._replace(extras=None)

    spoken, silent = rolled(Larger()), rolled(Silent())
    assert torch.equal(spoken.input_ids, silent.input_ids)
    assert silent.extras == {}
    assert CreditedTurns.needs == spoken.extras.keys()
