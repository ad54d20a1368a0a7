"""Numbers from inside the trunk, and numbers that travel through it: packed or padded, each belongs to the token that is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lightrl import Policy, TinyPolicy, TrunkOutput
from lightrl.policy.trunk_numbers import at_predicted, laid_out


class FirstBlock(TrunkOutput):
    """What the first block gives, in all its width."""

    name = "first_block"

    @contextmanager
    def listen(self, trunk: nn.Module) -> Iterator[Callable[[], Tensor]]:
        """See `TrunkOutput.listen`."""
        heard: list[Tensor] = []
        hook = trunk.get_submodule("layers.0").register_forward_hook(lambda module, args, out: heard.append(out))
        yield lambda: heard[0].flatten(0, 1)
        hook.remove()


def shifted(layer: nn.Module, args: tuple[Tensor, ...], arguments: dict[str, object], out: Tensor) -> Tensor:
    """Adds what travels with the tokens to what a block gives."""
    given = arguments.get("shift")
    return out + given.view(out.shape) if isinstance(given, Tensor) else out


def policy(packed: bool) -> Policy:
    made = TinyPolicy(hidden=16, layers=2, heads=2, dtype="float64").build()
    made.longest_packed = made.longest_packed if packed else 0
    return made


ROWS = torch.tensor([[2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 6, 9, 1], [9, 8, 7, 1, 0, 0, 0]])
MASK = torch.tensor([[0, 0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 0]]).bool()


@pytest.mark.parametrize("packed", [True, False])
def test_what_the_trunk_says_stands_at_the_token_that_is_predicted(packed: bool) -> None:
    made = policy(packed)
    found = made(ROWS, MASK, outputs={"first_block": FirstBlock()}).outputs["first_block"]
    plain = made.model.base_model(input_ids=ROWS, output_hidden_states=True).hidden_states[1]
    assert found.shape == (3, 7, 16)
    for row, last in enumerate([6, 6, 3]):
        torch.testing.assert_close(found[row, 1 : last + 1], plain[row, :last], atol=1e-12, rtol=0)
        assert not found[row, 0].any()
        assert not found[row, last + 1 :].any()


@pytest.mark.parametrize("packed", [True, False])
def test_what_travels_with_a_token_is_given_where_it_is_predicted(packed: bool) -> None:
    made, generator = policy(packed), torch.Generator().manual_seed(0)
    for name in ("layers.0", "layers.1"):
        made.model.base_model.get_submodule(name).register_forward_hook(shifted, with_kwargs=True)
    given = torch.randn(3, 7, 16, generator=generator, dtype=torch.float64)
    given[1, :6] = given[0, :6]
    last = given.clone()
    # behind the last token that is asked for
    last[2, 4:] = torch.nan
    ours = made(ROWS, MASK, steering={"shift": last}).logprobs
    shift = torch.cat([given[:, 1:], given[:, :1]], 1)
    logits = made.model(input_ids=ROWS, shift=shift, use_cache=False).logits
    plain = logits[:, :-1].log_softmax(-1).gather(2, ROWS[:, 1:, None])[..., 0]
    torch.testing.assert_close(ours[:, 1:], torch.where(MASK[:, 1:], plain, 0.0), atol=1e-12, rtol=0)
    assert (ours - made(ROWS, MASK).logprobs).abs().max() > 1e-3


@pytest.mark.parametrize("packed", [True, False])
def test_a_gradient_flows_from_inside_the_trunk(packed: bool) -> None:
    made = policy(packed)
    read = {"first_block": FirstBlock()}
    (made(ROWS, MASK, outputs=read).outputs["first_block"][:, 1:4] ** 2).sum().backward()
    ours = made.model.base_model.embed_tokens.weight.grad.clone()
    made.zero_grad()
    (made.model.base_model(input_ids=ROWS, output_hidden_states=True).hidden_states[1][:, :3] ** 2).sum().backward()
    torch.testing.assert_close(ours, made.model.base_model.embed_tokens.weight.grad, atol=1e-12, rtol=0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 1000))
def test_laid_out_and_back_is_the_same(lengths: list[int], seed: int) -> None:
    generator, width = torch.Generator().manual_seed(seed), 5
    order = torch.randperm(len(lengths) * width, generator=generator).view(len(lengths), width)
    given = torch.randint(9, (len(lengths), width, 2), generator=generator)
    back = at_predicted(laid_out({"given": given}, order, lengths, order.numel())["given"], order, lengths)
    for row, length in enumerate(lengths):
        assert back[row, 1 : length + 1].equal(given[row, 1 : length + 1])
        assert not back[row, length + 1 :].any()


def test_logits_do_not_say_what_comes_from_inside() -> None:
    with pytest.raises(RuntimeError, match="FirstBlock comes from inside the trunk"):
        FirstBlock().compute(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
