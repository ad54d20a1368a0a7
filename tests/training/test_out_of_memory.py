"""A run whose memory does not suffice goes on with smaller passes, and learns what a run with enough memory learns."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from lightrl_workshop import CodePoints, quiet_trainer
from torch import Tensor

from lightrl import (
    DigitSorting,
    FrozenReference,
    GroupRelative,
    GroupSampler,
    KLPenalty,
    Policy,
    PolicyOptimization,
    PromptData,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.rollout.decode.incremental import IncrementalModel
from lightrl.rows import Sequences
from lightrl.training.steps.fitting_passes import FittingPasses, TokenBudget


def run(tokens: Any = None, max_rows: int | None = None, optimizer: Any = None, strategy: str = "auto", environment: Any = None) -> Any:
    """A module after two rollouts of four prompts with four rows each, under a penalty against a reference."""
    module = PolicyOptimization(
        policy=TinyPolicy(hidden=16, layers=1, seed=3),
        algorithm=GroupRelative(sampler=GroupSampler(group_size=4), kl=KLPenalty(loss_coefficient=0.1), reference=FrozenReference()),
        rewards={"code points": CodePoints()},
        engine=TransformersEngine(max_new_tokens=8, max_rows=max_rows),
        prompts_per_rollout=4,
        micro_batch_tokens=tokens,
        optimizer=optimizer or (lambda p: torch.optim.SGD(p, lr=0.1)),
    )
    trainer = quiet_trainer(max_epochs=2, strategy=strategy)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=20)))
    return module


def weights(module: Any) -> Tensor:
    return torch.cat([p.detach().flatten() for p in module.policy.parameters()])


@pytest.fixture(scope="module")
def roomy() -> Any:
    return run()


def full(rows: int) -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {rows} GiB.")


def too_many_in_forward(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    plain = Policy.forward

    def forward(self: Policy, input_ids: Tensor, *rest: Any, **named: Any) -> Any:
        if len(input_ids) > most:
            raise full(len(input_ids))
        return plain(self, input_ids, *rest, **named)

    monkeypatch.setattr(Policy, "forward", forward)


def too_many_in_backward(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """In the middle of a backward pass, when the MLP has its gradient already and the embedding has none."""
    plain = Policy.forward

    def forward(self: Policy, input_ids: Tensor, *rest: Any, **named: Any) -> Any:
        found = plain(self, input_ids, *rest, **named)
        if len(input_ids) > most and found.logprobs.requires_grad:
            layer = self.model.base_model.layers[0]

            def fail(gradient: Tensor) -> None:
                handle.remove()
                assert layer.mlp.down_proj.weight.grad is not None
                raise full(len(input_ids))

            handle = layer.input_layernorm.weight.register_hook(fail)
        return found

    monkeypatch.setattr(Policy, "forward", forward)


@pytest.mark.parametrize("fail", [too_many_in_forward, too_many_in_backward])
@pytest.mark.parametrize("tokens", [None, 512])
def test_m2_micro_batches_that_lack_memory_are_halved_with_the_same_gradient(
    roomy: Any, monkeypatch: pytest.MonkeyPatch, fail: Any, tokens: int | None
) -> None:
    fail(monkeypatch, 5)
    with pytest.warns(UserWarning, match="micro_batch_tokens"):
        found = run(tokens)
    assert float((weights(found) - weights(roomy)).abs().max()) <= 1e-6
    assert 1 < found.learner.budget.tokens < 512


def test_what_was_found_out_is_said_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    too_many_in_forward(monkeypatch, 5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = run()
    assert [str(w.message).split()[-1] for w in said if "micro_batch_tokens" in str(w.message)] == [str(found.learner.budget.tokens)]


def test_m2_where_a_single_row_is_too_much_the_message_names_what_takes_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    too_many_in_backward(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run()
    said = "".join(caught.value.__notes__)
    for word in ("weights: ", "optimizer: ", "reference: ", "activations of ", "micro_batch_tokens", "gradient_checkpointing", "max_rows"):
        assert word in said


def test_m2_a_step_of_the_optimizer_that_lacks_memory_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some weights may have moved already."""
    made = []

    class Greedy(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            super().step(closure)
            # a parameter on which it is tried before the run is smaller
            if sum(p.numel() for p in self.param_groups[0]["params"]) > 500:
                made.append(self)
                raise full(1)

    with pytest.raises(torch.OutOfMemoryError) as caught:
        run(optimizer=lambda p: Greedy(p, lr=0.1))
    assert len(made) == 1
    assert "optimizer: " in caught.value.__notes__[0]


def test_where_other_ranks_wait_in_a_pass_it_is_not_made_again() -> None:
    attempts = []

    def act(cuts: list[Tensor]) -> None:
        attempts.append(cuts)
        raise full(1)

    budget = TokenBudget(64)
    sequences = Sequences(torch.zeros(8, 8, dtype=torch.long), torch.full((8,), 8), torch.arange(8))
    with pytest.raises(torch.OutOfMemoryError):
        FittingPasses(budget, 0, restarts=False).run(sequences, act)
    assert (len(attempts), budget.tokens) == (1, 64)


def too_many_decoded(monkeypatch: pytest.MonkeyPatch, most: int, at: str) -> None:
    """While more than so many rows are read, or decoded for the third time."""
    plain = getattr(IncrementalModel, at)
    calls = []

    def method(self: IncrementalModel, *rest: Any) -> Tensor:
        found: Tensor = plain(self, *rest)
        calls.append(len(found))
        if len(found) > most and (at == "prefill" or len(calls) % 3 == 0):
            raise full(len(found))
        return found

    monkeypatch.setattr(IncrementalModel, at, method)


@pytest.mark.parametrize("at", ["prefill", "step"])
@pytest.mark.parametrize("max_rows", [None, 12])
def test_m2_generation_goes_on_with_half_of_the_rows_and_samples_the_same_tokens(
    roomy: Any, monkeypatch: pytest.MonkeyPatch, at: str, max_rows: int | None
) -> None:
    too_many_decoded(monkeypatch, 4, at)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = run(max_rows=max_rows)
    assert torch.equal(found.experience.input_ids, roomy.experience.input_ids)
    assert torch.allclose(found.experience.rollout_logprobs, roomy.experience.rollout_logprobs, atol=1e-5)
    assert float((weights(found) - weights(roomy)).abs().max()) <= 1e-6
    about = [str(w.message) for w in said if "max_rows" in str(w.message)]
    assert len(about) == 1
    assert int(about[0].split()[-1]) <= 4


def test_m2_where_a_single_row_cannot_be_decoded_the_message_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    too_many_decoded(monkeypatch, 0, "prefill")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run()
    assert "keys and values" in caught.value.__notes__[0]
    assert "--model.engine.max_rows" in caught.value.__notes__[0]
