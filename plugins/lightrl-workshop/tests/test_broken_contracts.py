"""Each check is broken once on purpose, and the contract test that fails names it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_workshop import BrokenContract, class_cases, contracts
from lightrl_workshop.checks.check import EVERY
from lightrl_workshop.contracts import own_checks

from lightrl import (
    KL,
    Advantages,
    ChosenLikelihood,
    Entropy,
    EntropyBonus,
    Environment,
    GroupCentered,
    GroupRelative,
    KLPenalty,
    MaskTruncated,
    PolicyGradient,
    Prompt,
    Reply,
    RowLoss,
    TokenMean,
    TurnNormalized,
    broadcast_to_tokens,
    own_opening,
)
from lightrl.kinds import KINDS
from lightrl.ops.turns import turn_numbers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
FILES = [importlib.import_module(f"broken_contracts.{file.name}") for file in pkgutil.iter_modules([str(HERE / "broken_contracts")])]
BROKEN: dict[tuple[str, str], type[Any]] = {
    (file.KIND, title): cls for file in FILES if hasattr(file, "KIND") for title, cls in file.BROKEN.items()
}
CHECKS = [check for kind in (EVERY, *KINDS) for check in own_checks(kind)]


@pytest.mark.parametrize(("kind", "title"), BROKEN, ids=lambda value: str(value))
def test_a_broken_contract_is_named(kind: str, title: str, tmp_path: Path) -> None:
    cls = BROKEN[kind, title]
    of = "clip scheme" if kind == EVERY else kind
    (case,) = (case for case in class_cases(of, cls) if case.check.title == title and case.check.kind == kind)
    with pytest.raises(BrokenContract, match=re.escape(f"{cls.__name__} ({of}) breaks its contract: '{title}':\n")):
        case.run(tmp_path)


def test_every_check_is_broken_once() -> None:
    assert set(BROKEN) == {(check.kind, check.title) for check in CHECKS}
    assert len({(check.kind, check.title) for check in CHECKS}) == len(CHECKS)


def test_every_kind_has_one_file_with_its_contract() -> None:
    files = [file.name for file in pkgutil.iter_modules(contracts.__path__)]
    assert sorted(files) == sorted(kind.lower().replace(" ", "_") for kind in (EVERY, *KINDS))
    assert {check.kind for check in CHECKS} == {EVERY, *KINDS}


def test_the_message_shows_the_smallest_example(tmp_path: Path) -> None:
    title = "better rows never get less, and in some groups more"
    (case,) = (case for case in class_cases("advantage", BROKEN["advantage", title]) if case.check.title == title)
    with pytest.raises(BrokenContract) as found:
        case.run(tmp_path)
    lines = str(found.value).splitlines()
    assert lines[1:3] == ["a row with reward 1 must not get less than a row with reward 0", "  advantages = [2] float32 [-1.0, 0.0]"]
    assert "  rewards = [2] float32 [1.0, 0.0]" in lines


class Certain(MaskTruncated):
    """Broken on purpose: it asks for what is there in a step alone."""

    outputs = (Entropy(),)

    def weights(self, experience: Any) -> Any:
        return (experience.entropy < 1).float()


class Valued(ChosenLikelihood):
    """Broken on purpose: there is no critic beside an objective."""

    needs = frozenset({"values"})


def test_what_parts_of_another_kind_are_given_is_refused_first_and_as_the_algorithm_does(tmp_path: Path) -> None:
    first = class_cases("token weight", Certain)[0]
    with pytest.raises(BrokenContract, match="entropy") as found:
        first.run(tmp_path)
    with pytest.raises(ValueError, match=r"Certain .*entropy") as refused:
        GroupRelative(token_weight=Certain())
    assert str(found.value).splitlines()[1].partition(" has ")[2] == str(refused.value).partition(" has ")[2]
    class_cases("loss term", EntropyBonus)[0].run(tmp_path)
    class_cases("algorithm", Undecided)[0].run(tmp_path)
    with pytest.raises(BrokenContract, match=r"\['values'\], .*objective"):
        class_cases("objective", Valued)[0].run(tmp_path)


def broken_by(kind: str, cls: type[Any], folder: Path) -> list[str]:
    """The titles of the checks that a class breaks."""
    broken = []
    for case in class_cases(kind, cls):
        try:
            case.run(folder)
        except BrokenContract:
            broken.append(case.check.title)
    return broken


class Door(Environment):
    """Broken on purpose, behind a right move alone."""

    runs = "inline"

    def begin(self, prompt: Prompt, seed: int) -> Any:
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        if completion == "open the door":
            raise KeyError("hall")
        return Reply("The door is shut.")


class Shown(Door):
    """Broken on purpose, and it shows how it is played."""

    def example_turns(self, prompt: Prompt, seed: int) -> list[str]:
        return ["look", "open the door"]


def test_what_stands_behind_a_right_move_is_tried_where_the_environment_shows_it(tmp_path: Path) -> None:
    assert broken_by("environment", Door, tmp_path) == []
    assert "begin() gives a text or messages, and reply() a valid Reply" in broken_by("environment", Shown, tmp_path)


class ByOldEntropy(GroupCentered):
    """Its numbers are less where the old policy was undecided; it declares the old output and nothing else."""

    old_outputs = (Entropy(),)

    def compute(self, experience: Any) -> Advantages:
        found = super().compute(experience).advantages
        return Advantages(torch.where(found != 0, found / (1 + experience.extra("old_entropy")), 0.0))


def test_old_outputs_need_no_further_declaration(tmp_path: Path) -> None:
    assert broken_by("advantage", ByOldEntropy, tmp_path) == []


class Discounted(TurnNormalized):
    """Return of a turn with a discount."""

    def __init__(self) -> None:
        super().__init__(gamma=0.5)


class AgainstFirstTurns(Discounted):
    """Broken on purpose: later turns are compared with the first turns of their group."""

    def compute(self, experience: Any) -> Advantages:
        found, mask = super().compute(experience).advantages, experience.response_mask & experience.scorable[:, None]
        return Advantages(
            torch.where(mask & (turn_numbers(experience.response_mask) > 0), found + 0.5 * experience.rewards[:, None], found)
        )


def test_equal_rewards_of_discounted_turns_give_0(tmp_path: Path) -> None:
    equal = "equal rewards give exactly 0 where completions of one prompt are compared"
    assert broken_by("advantage", Discounted, tmp_path) == []
    assert equal in broken_by("advantage", AgainstFirstTurns, tmp_path)


class OfItsMicroBatch(RowLoss):
    """Broken on purpose: it compares the rows of a micro-batch, however the step is cut."""

    def row_loss(self, completions: Any, experience: Any, output: Any) -> Any:
        return (experience.rewards - experience.rewards.mean()) * completions.logprob


class Careless(GroupCentered):
    """Broken on purpose: of the mean and the number of rollouts it saves the mean alone."""

    def __init__(self) -> None:
        self.mean, self.rollouts, self.now = 0.0, 0, 0.0

    def compute(self, experience: Any) -> Advantages:
        self.now = float(experience.ranks.total(experience.rewards[experience.scorable].sum()[None].double())[0])
        return Advantages(broadcast_to_tokens(experience.rewards - self.mean, experience))

    def commit(self) -> None:
        self.rollouts += 1
        self.mean += (self.now - self.mean) / self.rollouts

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean = state["mean"]


class Silent(PolicyGradient):
    """Broken on purpose: it does not say what it prepares."""

    def prepare(self, minibatch: Any) -> Any:
        return {"level": minibatch.output.logprobs}


class Corridor(Environment):
    """Broken on purpose: all episodes walk with one pair of legs, and take exact commands."""

    runs = "inline"
    place = 0

    def begin(self, prompt: Prompt, seed: int) -> Any:
        Corridor.place = 0
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        Corridor.place += completion == "go north"
        return Reply(f"You are in room {Corridor.place}.", done=Corridor.place > 2)

    def example_turns(self, prompt: Prompt, seed: int) -> list[str]:
        return ["go north"] * 3


class Lamp(Environment):
    """Broken on purpose: an episode that begins takes the lamp from the others."""

    runs = "inline"
    lit = False

    def begin(self, prompt: Prompt, seed: int) -> Any:
        Lamp.lit = False
        return own_opening(prompt)

    def reply(self, completion: str) -> Reply:
        Lamp.lit |= completion == "light lamp"
        return Reply("You see a door." if Lamp.lit else "It is dark.", done=completion == "open door")

    def example_turns(self, prompt: Prompt, seed: int) -> list[str]:
        return ["light lamp", "look", "look", "open door"]


@pytest.mark.parametrize(
    ("kind", "cls", "title"),
    [
        ("environment", Corridor, "an episode has no influence on another"),
        ("environment", Lamp, "an episode has no influence on another"),
        ("loss term", OfItsMicroBatch, "rows and masked positions have no influence on each other"),
        ("advantage", Careless, "its history survives a restart"),
        ("clip scheme", Silent, "what it prepares for a step depends on neither order, padding nor ranks"),
    ],
)
def test_what_eight_strangers_planted_is_found(kind: str, cls: type[Any], title: str, tmp_path: Path) -> None:
    """Bugs that passed the check before: each of them by one who knew the documentation alone."""
    assert title in broken_by(kind, cls, tmp_path)


class Undecided(GroupRelative):
    """An algorithm needs what its parts do."""

    entropy = EntropyBonus()


def test_required_arguments_are_asked_for(tmp_path: Path) -> None:
    from lightrl import ConstantLength

    with pytest.raises(BrokenContract, match=r"ConstantLength .*length"):
        class_cases("aggregation", ConstantLength)[0].run(tmp_path)


class Frank(TokenMean):
    """It says that it does not keep a check."""

    exceptions = {"it is fast": "it is slow"}


def test_an_exception_from_no_check_is_refused_with_all_checks() -> None:
    with pytest.raises(ValueError, match=r"Frank\.exceptions names \['it is fast'\], but these are the checks of its") as refused:
        class_cases("aggregation", Frank)
    titles = [check.title for check in CHECKS if check.kind in ("aggregation", EVERY)]
    assert all(f"\n  {title}" in str(refused.value) for title in titles)
    assert all(case.exception is None for case in class_cases("aggregation", TokenMean))


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"TokenMean .*lightrl\.parts\.kl:KL"):
        class_cases("KL", TokenMean)
    assert issubclass(KLPenalty, KL)
