"""What all prompts of a batch begin with is read once for all of them."""

from collections.abc import Callable

import pytest
import torch

from lightrl import Policy, Prompt
from lightrl.rollout.decode import incremental
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rollout.decode.model_forward import ModelForward
from lightrl.rollout.loop import RolloutLoop

BEGINNING = [5, 9, 7, 3, 8, 6]
READS_ON = ["llama", "llama-eager", "qwen2", "qwen3", "mistral", "gpt2"]
"""Architectures whose rows can go on behind what was read before, with gaps in them."""


@pytest.fixture
def batch_of() -> Callable[[Policy], IncrementalModel]:
    def make(policy: Policy) -> IncrementalModel:
        model = policy.model.eval()
        return IncrementalModel(model, policy.max_positions, lambda: ModelForward(model))

    return make


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "WORTH_A_PASS", 1)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("architecture", READS_ON)
@pytest.mark.parametrize("ends", [[[2, 4], [4, 2]], [[2, 4, 5, 7], [4], [2, 3]]], ids=["even", "uneven"])
@torch.no_grad()
def test_the_numbers_are_those_of_whole_prompts(
    architecture: str, ends: list[list[int]], policy_of: Callable[..., Policy], batch_of: Callable[[Policy], IncrementalModel]
) -> None:
    policy, prompts, repeats = policy_of(architecture), [BEGINNING + end for end in ends], [2, 1, 3][: len(ends)]
    once, whole = batch_of(policy), batch_of(policy)
    shared = once.common_beginning(prompts)
    assert shared == len(BEGINNING)
    torch.testing.assert_close(once.prefill(prompts, repeats, 9, shared), whole.prefill(prompts, repeats, 9), atol=1e-4, rtol=1e-4)
    tokens = torch.arange(sum(repeats)) % 5 + 2
    for step in range(4):
        if step == 2:
            for batch in (once, whole):
                batch.keep(torch.tensor([2, 0]))
            tokens = tokens[:2]
        torch.testing.assert_close(once.step(tokens), whole.step(tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        ([[3] * 40 + [4], [3] * 40 + [5]], 0),  # 40 tokens less
        ([[3] * 40 + [4], [3] * 40 + [5], [3] * 40 + [6, 7]], 40),  # 80 less
        ([[3] * 64, [3] * 90, [3] * 70], 63),  # of each a token is left
        ([[3] * 64, [3] * 64 + [4]], 0),  # one token too few
        ([[3] * 65, [3] * 65 + [4]], 64),
        ([[3] * 80], 0),
        ([[4] * 80, [3] * 80], 0),
        ([[4], [4] * 80], 0),
    ],
)
def test_a_beginning_is_shared_where_that_saves_64_tokens(
    prompts: list[list[int]], shared: int, policy: Policy, batch_of: Callable[[Policy], IncrementalModel]
) -> None:
    assert batch_of(policy).common_beginning(prompts) == shared


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("architecture", ["mistral-sliding", "gemma2", "gemma3", "lfm2"])
def test_models_that_cannot_go_on_read_whole_prompts(
    architecture: str, policy_of: Callable[..., Policy], batch_of: Callable[[Policy], IncrementalModel]
) -> None:
    assert batch_of(policy_of(architecture)).common_beginning([[*BEGINNING, 2], [*BEGINNING, 4]]) == 0


@pytest.mark.usefixtures("_always")
@torch.no_grad()
def test_rows_say_what_was_read_for_them(
    policy: Policy,
    engine_for: Callable[..., RolloutLoop],
    reads_of: Callable[[Policy, RolloutLoop], list[tuple[int, int]]],
) -> None:
    prompts = [Prompt(id=text, text=text) for text in ("123+4=", "123+56=", "123+7=")]
    rollouts = engine_for(policy, max_new_tokens=1)
    reads = reads_of(policy, rollouts)
    found = rollouts.rollout(prompts, 2)
    assert reads == [(1, 4), (3, 3)]  # `123+`, and what follows it with padding
    assert [episode.read for episode in found.episodes] == [6, 0, 3, 0, 2, 0]
    ours = policy(found.input_ids, found.response_mask).logprobs
    torch.testing.assert_close(found.rollout_logprobs, ours, atol=1e-5, rtol=0)
