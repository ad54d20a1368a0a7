"""From the words of a command to one resolved config: classes by import path, arguments checked, nothing required missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from lightrl.arguments import Slot, type_name
from lightrl.config.describe.choice import Choice
from lightrl.config.describe.class_lookup import known, top_level_class
from lightrl.config.describe.plain_values import parsed
from lightrl.config.merge.merger import Merger, carried, split
from lightrl.config.merge.trainer_keys import Rollouts, check_trainer
from lightrl.config.read.import_paths import announce
from lightrl.config.read.refusals import ConfigError, check_key
from lightrl.config.read.settings import Request, Setting
from lightrl.config.read.source_keys import SECTIONS, verb_keys
from lightrl.ranges import usual
from lightrl.ranks import local_rank
from lightrl.registry.classes import registry


@dataclass
class Resolved:
    """The config of a run, every setting laid over the earlier ones."""

    name: str
    """Of the run: the config file's."""
    folder: str
    """Below which runs are logged."""
    model: Choice
    """The LightningModule with every part."""
    data: Choice
    """The LightningDataModule with every part."""
    rollouts: Rollouts
    """The length of the run."""
    trainer_words: list[str]
    """The settings of the Trainer and of the verb, in order, as words for its parser."""
    notes: list[str]
    """One line for each value that a switch of classes dropped or carried, and for each number that is absurd."""

    @property
    def sections(self) -> dict[str, Choice]:
        """The sections that hold parts, by their keys."""
        return {"model": self.model, "data": self.data}


def resolve(verb: str, request: Request, complete: bool = True) -> Resolved:
    """Lay all settings over each other in order; a `complete` config leaves out no required argument.

    Raises:
        ConfigError: something cannot be carried out; it names every key that is wrong.
    """
    # plugins register the classes that a config names
    registry()
    announce(request)
    choices = {section: _start(section, request.settings) for section in SECTIONS}
    merger, rollouts, trainer_words = Merger(), Rollouts(), []
    for setting in request.settings:
        content = setting.content
        for key in content:
            with merger.problems.collected(str(key)):
                check_key(str(key), content[key], (*SECTIONS, "rollouts", "trainer", *verb_keys(verb)), setting.source)
        for section, choice in choices.items():
            if section in content:
                with merger.problems.collected(section):
                    # a class name, or a mapping in YAML; anything else is refused as arguments
                    name, given = split(parsed(content[section], section), section, setting.source)
                    merger.arguments(choice, given if name is None or isinstance(name, str) else name, section, setting.source)
        with merger.problems.collected("rollouts"):
            rollouts.read(content, setting)
        if rest := {key: value for key, value in content.items() if key not in (*SECTIONS, "rollouts")}:
            with merger.problems.collected("trainer"):
                check_trainer(rest, setting, verb)
                trainer_words.append(f"--config={yaml.safe_dump(rest)}" if not setting.path else setting.word)
    merger.problems.check()
    model, data = choices["model"], choices["data"]
    if verb == "fit" and "algorithm" not in model.takes:
        rollouts.check_module(model.cls.__name__)
    if complete:
        endless = verb == "fit" and not rollouts.ends and "algorithm" in model.takes
        check_complete({"model": model, "data": data}, ["rollouts"] if endless else [])
        if endless:
            raise ConfigError("rollouts", "not given: how many rollouts should the run have?", "Type for example: --rollouts 100")
    notes = [*merger.notes, *carried(model), *unusual(model, "model"), *unusual(data, "data")]
    return Resolved(_name(request, model), request.folder, model, data, rollouts, trainer_words, notes)


def _name(request: Request, model: Choice) -> str:
    """The config's name; with the algorithm's where the command line has chosen another one, so that logs can be told apart."""
    chosen = request.last("model", "algorithm") if any(s.path == ("model", "algorithm") for s in request.settings) else None
    return request.name if chosen is None else f"{request.name}_{model.value('algorithm').cls.__name__}"


def print_notes(notes: list[str]) -> None:
    """Print the notes on a config, once for all processes of a run."""
    if local_rank() == 0:
        sys.stderr.writelines(f"{note}\n" for note in notes)


def _start(section: str, settings: list[Setting]) -> Choice:
    """The section's class, the last that was named, without arguments."""
    name: str | None = None
    for setting in settings:
        given = parsed(setting.content.get(section), section)
        if isinstance(given, str):
            name = given
        elif isinstance(given, dict) and given.get("class_path") is not None:
            name = str(parsed(given["class_path"], section))
    cls = top_level_class(section, name)
    return Choice(cls, Slot("part", cls, cls))


def unusual(value: object, key: str) -> Iterator[str]:
    """One line for each number that was given and is neither 0 nor in the range that its argument calls usual."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from unusual(part, f"{key}.{name}")
    if isinstance(value, Choice):
        for name in value.arguments:
            yield from unusual(value.arguments[name], f"{key}.{name}")
            expected, number = usual(value.takes[name].slot.annotation), value.arguments[name]
            if expected is not None and isinstance(number, (int, float)) and number != 0 and number not in expected:
                yield f"unusual: {key}.{name} is {number:g}; values from {expected.low:g} to {expected.high:g} are usual"


def check_complete(choices: Mapping[str, object], others: Sequence[str] = ()) -> None:
    """Refuse choices, by their keys, without a required argument, or several by name.

    All that is missing is named, others included, and for the first the classes that exist and an example to type.
    """
    if missing := [one for key, value in choices.items() for one in _missing(value, key)]:
        key, slot = missing[0]
        also = [*(k for k, _ in missing[1:]), *others]
        listed = f" Missing too: {', '.join(also)}." if also else ""
        raise ConfigError(key, f"not given, and there is no default.{listed}", *_what_to_type(key, slot))


def _missing(value: object, key: str) -> Iterator[tuple[str, Slot]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _missing(part, f"{key}.{name}")
    if isinstance(value, Choice):
        for name, argument in value.takes.items():
            given = name in value.arguments and (argument.slot.shape != "parts" or value.arguments[name])
            if argument.required and not given:
                yield f"{key}.{name}", argument.slot
            else:
                yield from _missing(value.value(name), f"{key}.{name}")


def _what_to_type(key: str, slot: Slot) -> tuple[str, ...]:
    if slot.shape == "plain":
        return (f"Type: --{key} VALUE, where VALUE is {type_name(slot.annotation)}",)
    names = known(slot)
    example = f"--{key}{'.NAME' if slot.shape == 'parts' else ''} {names.split(', ')[0]}"
    function = " (or the import path of a function)" if slot.kind == "reward" else ""
    return f"Known: {names}{function}.", f"Type for example: {example}, or --config NAME: lightrl configs lists them"
