"""Options of TRL, verl and OpenRLHF are answered with keys that exist."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer

from lightrl.arguments import Slot, arguments_of
from lightrl.cli import main
from lightrl.config.describe.class_lookup import top_level_class
from lightrl.config.read.refusals import key_here, libraries
from lightrl.registry.classes import registry

KEYS = sorted({key for options in libraries().values() for key in options.values() if not key.startswith("nothing")})
TOPS = {"rollouts": [], "ckpt_path": [], "seed_everything": []}


def candidates(slot: Slot) -> list[tuple[type[Any], Slot]]:
    """The classes that a slot may hold."""
    inner = slot.item if slot.shape == "parts" else slot
    classes = [cls for _, cls in registry().of_kind(inner.kind)] if inner.kind is not None else []
    if inner.base is torch.optim.Optimizer:
        return [(torch.optim.AdamW, inner)]
    return [(cls, inner) for cls in [*classes, *([inner.base] if inner.base is not None else [])]]


def exists(key: str) -> bool:
    """Whether some class at each place of a key takes the next name of it."""
    first, *names = key.split(".")
    if not names:
        return first in TOPS
    if first == "trainer":
        return names[0] in inspect.signature(Trainer.__init__).parameters
    top = top_level_class(first, None)
    here = [(top, Slot("part", top, top))]
    for name in names:
        if name == "NAME":
            continue
        taken = [arguments_of(cls, slot.supplied) for cls, slot in here]
        found = [takes[name].slot for takes in taken if name in takes]
        if not found:
            return False
        here = [candidate for slot in found for candidate in candidates(slot)] or [(object, slot) for slot in found]
    return True


@pytest.mark.parametrize("said", KEYS)
def test_the_key_that_is_named_exists(said: str) -> None:
    key = said.partition(" of model.")[2] and "model." + said.partition(" of model.")[2]
    assert exists(key or said.split(",")[0].split(";")[0].split(" ")[0]), said


def test_a_key_that_does_not_exist_is_found_out() -> None:
    assert exists("model.algorithm.clip.high")
    assert not exists("model.algorithm.clip.higher")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--learning_rate", "learning_rate: there is no such key. TRL's 'learning_rate': here set model.optimizer.lr."),
        ("--beta", "TRL's 'beta': here set model.algorithm.kl.loss_coefficient."),
        ("--model.algorithm.beta", "TRL's 'beta': here set model.algorithm.kl.loss_coefficient."),
        ("--actor_rollout_ref.actor.optim.lr", "verl's 'actor_rollout_ref.actor.optim.lr': here set model.optimizer.lr."),
        ("--trainer.n_gpus_per_node", "verl's 'trainer.n_gpus_per_node': here set trainer.devices."),
        ("--data.max_response_length", "verl's 'data.max_response_length': here set model.engine.max_new_tokens."),
        ("--n_samples_per_prompt", "OpenRLHF's 'n_samples_per_prompt': here set model.algorithm.sampler.group_size."),
        ("--num_generations", "TRL's 'num_generations': here set model.algorithm.sampler.group_size."),
    ],
)
def test_an_option_of_another_library_is_translated(word: str, expected: str, lightrl: Callable[..., Any]) -> None:
    answer = lightrl("fit", "--config", "run.yaml", word, "1")
    assert answer.status == 2
    assert expected in answer.err


def test_what_nobody_has_is_answered_with_the_closest_key(lightrl: Callable[..., Any]) -> None:
    assert "Did you mean 'rollouts'?" in lightrl("fit", "--config", "run.yaml", "--rolouts", "1").err
    assert key_here("model.optimizer.lr") == ""


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train", "--config", "grpo"], "Type for example: lightrl fit --config FILE."),
        (["GRPO", "--model", "x"], "Type for example: lightrl fit --config grpo."),
        (["trian", "--config", "grpo"], "Type for example: lightrl fit --config FILE."),
        (["fit", "grpo.yaml"], "For a config type: --config grpo.yaml"),
        (["fit", "rollouts=5"], "Type: --rollouts 5"),
        (["fit", "-rollouts", "5"], "Type: --rollouts 5"),
        (["fit", "--config", "."], "--config: '.' is a folder. In '.': "),
    ],
    ids=["train", "GRPO", "train mistyped", "a config without its option", "Hydra's form", "one dash", "a folder"],
)
def test_other_habits_of_the_command_line_are_answered_with_what_to_type(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert answer in capsys.readouterr().err
