"""jsonargparse reads algorithms without any code of lightrl's configs: a bare parser, command line and YAML."""

import contextlib
import io
from argparse import ArgumentError
from pathlib import Path

import pytest
import yaml
from jsonargparse import ArgumentParser

from lightrl import (
    ActorCritic,
    AdaptiveKL,
    Algorithm,
    DecoupledClip,
    EntropyBonus,
    GroupRelative,
    KLPenalty,
    LossTerm,
    TokenMean,
    ValueHead,
)


class Parsed(GroupRelative):
    """An algorithm that a bare parser reads."""

    clip = DecoupledClip(low=0.2, high=0.28)
    aggregation = TokenMean()
    kl = KLPenalty(loss_coefficient=0.1, controller=AdaptiveKL(target=3.0, horizon=500.0))
    epochs = 2
    """Passes, here two."""
    undecided: LossTerm | None = EntropyBonus(coefficient=0.01)
    """Keeps the policy undecided."""


@pytest.fixture
def parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--config", action="config")
    parser.add_argument("--algorithm", type=Algorithm)
    return parser


def built(parser: ArgumentParser, *words: str) -> Algorithm:
    return parser.instantiate(parser.parse_args(words)).algorithm


def test_the_name_alone_gives_every_part_and_value(parser: ArgumentParser) -> None:
    made = built(parser, "--algorithm", "Parsed")
    assert repr(made) == repr(Parsed())
    assert (type(made), made.epochs, made.kl.controller.target) == (Parsed, 2, 3.0)


def test_arguments_of_parts_and_values_are_overridden_on_the_command_line(parser: ArgumentParser) -> None:
    words = ["--algorithm.clip.high", "0.3", "--algorithm.epochs", "4", "--algorithm.kl.estimator", "k2", "--algorithm.undecided", "null"]
    made = built(parser, "--algorithm", "Parsed", *words)
    assert (made.clip.low, made.clip.high, made.epochs, made.undecided) == (0.2, 0.3, 4, None)
    assert (made.kl.estimator, made.kl.loss_coefficient, made.kl.controller.target) == ("k2", 0.1, 3.0)
    assert (Parsed().clip.high, Parsed().kl.estimator) == (0.28, "k3")
    assert built(parser, "--algorithm", "Parsed").clip.high == 0.28


def test_arguments_of_parts_are_overridden_in_yaml_with_and_without_a_class(parser: ArgumentParser, tmp_path: Path) -> None:
    controller = {"class_path": "AdaptiveKL", "init_args": {"target": 5.0}}
    slots = {"clip": {"init_args": {"high": 0.5}}, "kl": {"class_path": "KLPenalty", "init_args": {"controller": controller}}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"algorithm": {"class_path": "Parsed", "init_args": {**slots, "undecided": {"coefficient": 0.5}}}}))
    made = built(parser, "--config", str(path))
    assert (made.clip.low, made.clip.high, made.undecided.coefficient) == (0.2, 0.5, 0.5)
    assert (made.kl.loss_coefficient, made.kl.controller.target) == (0.1, 5.0)


def test_a_part_is_replaced_and_an_empty_slot_filled(parser: ArgumentParser) -> None:
    words = ["--algorithm.clip", "SymmetricClip", "--algorithm.clip.epsilon", "0.4", "--algorithm.entropy", "EntropyBonus"]
    made = built(parser, "--algorithm", "Parsed", *words)
    assert (type(made.clip).__name__, made.clip.epsilon, made.entropy.coefficient) == ("SymmetricClip", 0.4, 0.001)


def test_a_dump_is_complete_and_is_read_again(parser: ArgumentParser, tmp_path: Path) -> None:
    config = parser.parse_args(["--algorithm", "Parsed", "--algorithm.clip.high", "0.3"])
    text = parser.dump(config)
    slots = yaml.safe_load(text)["algorithm"]["init_args"]
    assert slots["clip"]["init_args"] == {"low": 0.2, "high": 0.3}
    assert slots["kl"]["init_args"]["controller"]["init_args"] == {"target": 3.0, "horizon": 500.0}
    assert slots["epochs"] == 2
    path = tmp_path / "dumped.yaml"
    path.write_text(text)
    assert repr(built(parser, "--config", str(path))) == repr(parser.instantiate(config).algorithm)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algorithm.clip.hihg", "0.3"], "hihg"),
        (["--algorithm.clipp", "DecoupledClip"], "clipp"),
        (["--algorithm.clip", "TokenMean"], "clip"),
        (["--algorithm.epochs", "two"], "epochs"),
        (["--algorithm.old_logprobs", "recomputed"], "old_logprobs"),
    ],
    ids=["argument of a part", "slot", "part of another kind", "number", "choice"],
)
def test_a_mistake_is_refused_by_its_key(parser: ArgumentParser, words: list[str], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        parser.parse_args(["--algorithm", "Parsed", *words])


def test_help_has_types_defaults_and_the_docstrings_under_the_attributes(parser: ArgumentParser) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        parser.parse_args(["--algorithm.help", "Parsed"])
    text = " ".join(out.getvalue().split())
    assert "Passes, here two. (type: Annotated[int, Ge(ge=1), Le(le=10000), Usual(low=1, high=100)], default: 2)" in text
    assert "Keeps the policy undecided. (type: LossTerm | null, default: {'class_path': 'lightrl.EntropyBonus'" in text
    assert "How far one update may go. (type: <class 'ClipScheme'>" in text


def test_a_family_is_read_as_well() -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--algorithm", type=Algorithm)
    made = parser.instantiate(parser.parse_args(["--algorithm", "ActorCritic"])).algorithm
    assert type(made) is ActorCritic
    assert isinstance(made.critic, ValueHead)
