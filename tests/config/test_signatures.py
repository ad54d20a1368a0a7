"""The arguments of a class: inherited ones, types that only a type checker imports, defaults that make an optimizer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import torch
from lightning.pytorch.cli import OptimizerCallable

from lightrl.arguments import arguments_of
from lightrl.config.describe.choice import Choice, default_of
from lightrl.config.describe.documentation import argument_docs

if TYPE_CHECKING:
    from decimal import Decimal

    from no_such_package import Nothing


class Base:
    """A base."""

    def __init__(self, first: int, fixed: float = 1.0, amount: Decimal | None = None, unknown: Nothing | None = None) -> None:
        """
        Args:
            first: comes first.
            fixed: set by the subclass.
        """


class Derived(Base):
    """Hands on what it does not know."""

    def __init__(self, own: str = "x", **kwargs: Any) -> None:
        """
        Args:
            own: of this class.
        """
        super().__init__(fixed=2.0, **kwargs)


class Trained:
    """Makes its optimizer as LightningCLI's documentation does."""

    def __init__(self, optimizer: OptimizerCallable = lambda p: torch.optim.SGD(p, lr=0.5)) -> None:
        """
        Args:
            optimizer: of all parameters.
        """


def test_arguments_are_followed_through_kwargs() -> None:
    found = arguments_of(Derived)
    assert list(found) == ["own", "first", "amount", "unknown"]  # `fixed` is given by the class itself
    assert (found["own"].slot.annotation, found["first"].slot.annotation) == (str, int)
    assert found["first"].required
    assert not found["own"].required
    assert argument_docs(Derived)["first"] == "comes first."


def test_a_type_that_is_imported_for_type_checkers_is_found_and_another_is_any() -> None:
    from decimal import Decimal

    found = arguments_of(Base)
    assert Decimal in found["amount"].slot.annotation.__args__
    assert found["unknown"].slot.annotation is Any


def test_a_lambda_that_makes_an_optimizer_is_a_class_with_arguments() -> None:
    optimizer = arguments_of(Trained)["optimizer"]
    assert (optimizer.slot.shape, optimizer.slot.supplied) == ("factory", 1)
    choice = default_of(optimizer)
    assert isinstance(choice, Choice)
    assert (choice.cls, choice.value("lr")) == (torch.optim.SGD, 0.5)


@pytest.mark.parametrize("supplied", [0, 1])
def test_leading_arguments_are_left_out(supplied: int) -> None:
    names = list(inspect.signature(torch.optim.Adam.__init__).parameters)[1:]
    assert list(arguments_of(torch.optim.Adam, supplied)) == names[supplied:]
