"""The auxiliary loss of routers: hand numbers, the formula by autograd, and where the function of transformers differs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from lightrl_moe import Balance, RouterBalance, TinyMixture
from lightrl_moe.routers import heard, routers_of
from lightrl_workshop.experience import experience
from torch import Tensor, nn

from lightrl import Minibatch, PolicyOutput


class HandRouter(nn.Module):
    """Answers with given logits."""

    norm_topk_prob = False

    def __init__(self, logits: Tensor, chosen: int) -> None:
        """
        Args:
            logits: `[P, E]`.
            chosen: experts of each token.
        """
        super().__init__()
        self.logits, self.chosen = nn.Parameter(logits), chosen

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, weights and experts."""
        return self.logits, *self.logits.softmax(-1).topk(self.chosen)


class HandTrunk(nn.Module):
    """A block for each of several routers."""

    _can_record_outputs: ClassVar[dict[str, Any]] = {"router_logits": HandRouter}

    def __init__(self, logits: list[Tensor], chosen: int = 1) -> None:
        """
        Args:
            logits: `[P, E]` of each layer.
            chosen: experts of each token.
        """
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"gate": HandRouter(each, chosen)}) for each in logits)

    def forward(self) -> None:
        """Ask each router once."""
        for layer in self.layers:
            layer["gate"]()

    def gradients(self) -> list[Tensor]:
        """Of the logits of each layer."""
        return [layer["gate"].logits.grad for layer in self.layers]


def logits_of(probabilities: list[list[float]]) -> Tensor:
    """`[P, E]` logits in float64 of probabilities."""
    return torch.tensor(probabilities, dtype=torch.float64).log()


HALF = torch.tensor([[0.75, 0.25]], dtype=torch.float64)


def value(trunk: HandTrunk, shares: Tensor) -> Tensor:
    term = Balance()
    term.shares = shares
    with term.listen(trunk) as found:
        trunk()
    return found()


def prepared(routes: Tensor) -> tuple[RouterBalance, Tensor]:
    """The term after a step of one row with these routes, `[tokens, layers, k]`, and the load of each token."""
    rows, term = experience([0.0], lengths=[len(routes)]), RouterBalance()
    width = rows.input_ids.shape[1]
    whole = torch.zeros(1, width, *routes.shape[1:], dtype=torch.int16)
    whole[0, width - len(routes) :] = routes
    load = term.prepare(Minibatch(rows, PolicyOutput(rows.old_logprobs, {"routes": whole})))["expert_load"]
    return term, load[0, width - len(routes) :]


def test_shares_are_counted_by_hand() -> None:
    term, load = prepared(torch.tensor([[[0, 1], [2, 3]], [[0, 2], [2, 3]]]))
    assert term._balance.shares is not None
    assert term._balance.shares.tolist() == [[0.5, 0.25, 0.25, 0], [0, 0, 0.5, 0.5]]
    torch.testing.assert_close(load, torch.tensor([0.4375, 0.4375]), rtol=0, atol=1e-7)


def test_value_and_gradient_by_hand() -> None:
    """b = 2 (0.75 p_0 + 0.25 p_1), and with the softmax d b / d z_0 = 2 p_0 (0.75 - 0.75 p_0 - 0.25 p_1)."""
    trunk = HandTrunk([logits_of([[0.75, 0.25], [0.5, 0.5]])])
    found = value(trunk, HALF)
    torch.testing.assert_close(found, torch.tensor([1.25, 1.0], dtype=torch.float64))
    found.sum().backward()
    expected = torch.tensor([[0.1875, -0.1875], [0.25, -0.25]], dtype=torch.float64)
    torch.testing.assert_close(trunk.gradients()[0], expected, atol=1e-12, rtol=0)


def test_layers_that_are_uneven_in_opposite_ways_are_not_balanced() -> None:
    """A known mistake: over all layers together, each expert gets half of the tokens, and the loss would be that of even use."""
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = [logits_of([[0.9, 0.1]] * 4), logits_of([[0.1, 0.9]] * 4)]
    assert float(load_balancing_loss_func(tuple(logits), 2, 1)) == pytest.approx(1.0)
    mine = value(HandTrunk(logits), torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    assert mine.tolist() == pytest.approx([1.8] * 4)


@pytest.mark.parametrize("chosen", [1, 2])
def test_one_layer_and_one_micro_batch_give_what_transformers_gives_divided_by_k(chosen: int) -> None:
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trunk = HandTrunk([logits], chosen)
    with heard(trunk) as said:
        trunk()
    term, _ = prepared(said[0].experts[:, None])
    assert term._balance.shares is not None
    theirs = load_balancing_loss_func((logits,), 4, chosen)
    torch.testing.assert_close(value(trunk, term._balance.shares).mean(), theirs.double() / chosen, atol=1e-6, rtol=0)


def test_experts_that_nobody_chose_and_a_step_before_any_count_as_nothing() -> None:
    trunk = HandTrunk([logits_of([[0.5, 0.25, 0.25]])])
    assert value(trunk, torch.tensor([[1.0]], dtype=torch.float64)).tolist() == [1.5]
    with Balance().listen(trunk) as found:
        trunk()
    assert found().tolist() == [0.0]


def test_a_step_without_a_token_has_no_shares() -> None:
    term, _ = prepared(torch.zeros(0, 2, 2))
    assert term._balance.shares is not None
    assert term._balance.shares.tolist() == [[0.0], [0.0]]


def test_the_term_that_is_switched_off_asks_for_nothing() -> None:
    assert RouterBalance(0).outputs == ()


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe"])
def test_probabilities_are_those_that_transformers_records(family: str) -> None:
    policy = TinyMixture(family, hidden=16, layers=2, heads=2, dtype="float64").build()
    ids = torch.tensor([[2, 5, 3, 4]])
    term = Balance()
    term.shares = torch.eye(2, 8, dtype=torch.float64)
    with term.listen(policy.model.base_model) as found:
        recorded = policy.model(input_ids=ids, output_router_logits=True).router_logits
    expected = sum(recorded[layer].softmax(-1)[:, layer] for layer in range(2)) * 4
    torch.testing.assert_close(found(), expected, atol=1e-12, rtol=0)
    assert [router.block for router in routers_of(policy.model.base_model)] == [("layers.0", "mlp.gate"), ("layers.1", "mlp.gate")]
