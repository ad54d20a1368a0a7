"""What an engine records while it samples is what the trainer's own forward finds at the sampled tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from lightrl_workshop import rollouts_with
from torch import Tensor, nn

from lightrl import Environment, Policy, Prompt, Reply, Rollout, TinyPolicy, TransformersEngine, TrunkOutput
from lightrl.parts.environment import SingleTurn, own_opening
from lightrl.rollout.decode.lean_step import has_lean_form


class LastNorm(TrunkOutput):
    """What the last norm gives, in all its width."""

    name = "last_norm"

    @contextmanager
    def listen(self, trunk: nn.Module) -> Iterator[Callable[[], Tensor]]:
        """See `TrunkOutput.listen`."""
        heard: list[Tensor] = []
        hook = trunk.get_submodule("norm").register_forward_hook(lambda module, args, out: heard.append(out))
        yield lambda: heard[0].flatten(0, 1)
        hook.remove()


class Counting(Environment):
    """Says the length of the last turn, three times."""

    runs = "inline"
    gives_rewards = True

    def begin(self, prompt: Prompt, seed: int) -> str:
        """The prompt."""
        self.turn = 0
        return str(own_opening(prompt))

    def reply(self, completion: str) -> Reply:
        """The length."""
        self.turn += 1
        return Reply(f"?{len(completion)}=", reward=1.0, done=self.turn == 3)


@pytest.fixture
def policy() -> Policy:
    return TinyPolicy(hidden=16, layers=2, heads=2, dtype="float64").build()


PROMPTS = [Prompt(id=str(i), text="123456="[i:]) for i in (3, 0, 5)]


def sampled(
    policy: Policy, environment: Environment, prompts: list[Prompt], recorded: tuple[TrunkOutput, ...], max_rows: int | None = None
) -> Rollout:
    engine = TransformersEngine(max_new_tokens=24, max_rows=max_rows)
    engine.recorded = recorded
    return rollouts_with(policy, engine, environment).rollout(prompts, 4)


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1]], ids=["padded", "of one length"])
@pytest.mark.parametrize("environment", [SingleTurn(), Counting(max_turns=3)], ids=repr)
@pytest.mark.parametrize("max_rows", [None, 3], ids=["together", "in places as they become free"])
def test_it_is_what_the_trainer_finds(policy: Policy, environment: Environment, prompts: list[Prompt], max_rows: int | None) -> None:
    assert has_lean_form(policy.model)
    rollout = sampled(policy, environment, prompts, (LastNorm(),), max_rows)
    found = policy(rollout.input_ids, rollout.response_mask, outputs={"last_norm": LastNorm()}).outputs["last_norm"]
    recorded = rollout.extra("rollout_last_norm")
    assert recorded.shape == found.shape
    torch.testing.assert_close(recorded[rollout.response_mask], found[rollout.response_mask], atol=1e-6, rtol=1e-6)
    assert not recorded[~rollout.response_mask].any()
    assert len(set(rollout.response_lengths.tolist())) > 1, "rows leave the batch at different times"


def test_recording_changes_no_token(policy: Policy) -> None:
    with_and_without = [sampled(policy, SingleTurn(), PROMPTS, recorded) for recorded in ((LastNorm(),), ())]
    assert with_and_without[0].input_ids.equal(with_and_without[1].input_ids)
    assert with_and_without[1].extras == {}
