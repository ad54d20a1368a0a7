from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st
from lightning.pytorch import Callback, LightningModule, Trainer
from lightrl_workshop import quiet_trainer

from lightrl.data.loaders import PromptBatch, PromptBatches, StepNumbers
from lightrl.data.prompt_data import PromptData
from lightrl.data.tasks import Addition, DigitSorting
from lightrl.parts.prompts import PromptSource
from lightrl.types import Prompt


class Texts(PromptSource):
    """Prompts with these texts, numbered."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    @property
    def size(self) -> int:
        return len(self.texts)

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=f"{self.texts[index]}/{index}", text=self.texts[index], columns={"length": len(self.texts[index])})


class Endless(PromptSource):
    """x, xx, xxx, ..."""

    @property
    def size(self) -> None:
        return None

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="x" * (index + 1))


class Drawing(LightningModule):
    """Draws three prompts a step, as a rollout does, and notes what it saw."""

    def __init__(self, steps: int = 2) -> None:
        super().__init__()
        self.steps, self.drawn, self.seen = steps, [], []
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.automatic_optimization = False

    def steps_per_epoch(self, prompts: int | None) -> int:
        return self.steps

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.drawn += [p.id for p in self.trainer.datamodule.draw(3)]
        self.optimizers().step()

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> None:
        self.seen += [p.id for p in batch.prompts]

    test_step = predict_step = validation_step


class KilledError(Exception):
    """The machine went away."""


class KillAfter(Callback):
    """Saves a checkpoint after some steps, and ends the run there."""

    def __init__(self, steps: int, path: Path) -> None:
        self.steps, self.path = steps, path

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        if trainer.global_step == self.steps:
            trainer.save_checkpoint(self.path)
            raise KilledError


def trainer(folder: Path, **kwargs: Any) -> Trainer:
    return quiet_trainer(default_root_dir=folder, num_sanity_val_steps=0, **kwargs)


def texts(source: PromptSource) -> list[str]:
    return [str(source.prompt(i).text) for i in range(source.size or 0)]


def answers_of(data: PromptData, name: str) -> list[Any]:
    source = data._sources[name]
    return [source.prompt(i).answer for i in range(source.size or 0)]


def parts(data: PromptData) -> dict[str, list[str]]:
    return {name: texts(source) for name, source in data._sources.items()}


def test_training_draws_and_evaluation_sees_every_prompt(tmp_path: Path) -> None:
    data = PromptData(DigitSorting(examples=20), test=Addition(examples=5), validation_size=7, validation_batch_size=3)
    module = Drawing()
    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(module, datamodule=data)
    assert len(module.drawn) == 2 * 2 * 3
    assert sorted(module.seen) == sorted(2 * [f"sort6:{t[:-1]}" for t in parts(data)["validation"]])
    module.seen = []
    trainer(tmp_path).test(module, datamodule=data, verbose=False)
    trainer(tmp_path).predict(module, datamodule=data)
    assert module.seen == 2 * [data._sources["test"].prompt(i).id for i in range(5)]


def test_nothing_to_validate_on_is_no_error(tmp_path: Path) -> None:
    module = Drawing()
    trainer(tmp_path, max_epochs=1, enable_checkpointing=False).fit(module, datamodule=PromptData(DigitSorting(examples=4)))
    assert len(module.drawn) == 6
    assert module.seen == []


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 7])
def test_a_run_killed_at_any_step_draws_the_rest(tmp_path: Path, stop: int) -> None:
    def data() -> PromptData:
        return PromptData(DigitSorting(examples=10), seed=3)

    whole, before, after = Drawing(3), Drawing(3), Drawing(3)
    trainer(tmp_path, max_epochs=4, enable_checkpointing=False).fit(whole, datamodule=data())
    with pytest.raises(KilledError):
        trainer(tmp_path, max_epochs=4, callbacks=[KillAfter(stop, tmp_path / "mid.ckpt")]).fit(before, datamodule=data())
    rest = trainer(tmp_path, max_epochs=4, enable_checkpointing=False)
    rest.fit(after, datamodule=data(), ckpt_path=tmp_path / "mid.ckpt", weights_only=True)
    assert len(whole.drawn) == 36
    assert before.drawn + after.drawn == whole.drawn


def test_other_data_or_another_order_cannot_be_resumed() -> None:
    state = PromptData(DigitSorting(examples=10)).state_dict()
    for other, words in (
        (PromptData(DigitSorting(examples=11)), "trained on 10 prompts and these are 11"),
        (PromptData(DigitSorting(examples=10, seed=1)), "10 training prompts had other ids or contents"),
        (PromptData(DigitSorting(examples=10), seed=1), r"data.seed was 0 and is now 1"),
        (PromptData(DigitSorting(examples=10), shuffle=False), "data.shuffle was True and is now False"),
    ):
        other.measure(lambda prompt: [0], None)
        with pytest.raises(ValueError, match=words):
            other.load_state_dict(state)


def test_a_state_loaded_before_measuring_is_checked_against_what_is_left() -> None:
    def measured(limit: int) -> PromptData:
        data = PromptData(Texts("a", "bb", "ccc"), shuffle=False)
        data.measure(encode, limit)
        return data

    with pytest.warns(UserWarning, match=r"1 of 3|of 3 train prompts, 1 have more than 2 tokens"):
        saved = measured(2)
    saved.draw(1)
    again = PromptData(Texts("a", "bb", "ccc"), shuffle=False)
    again.load_state_dict(saved.state_dict())
    assert again.state_dict() == saved.state_dict()
    with pytest.raises(ValueError, match=r"2 prompts .* 3"):
        again.measure(encode, 3)
    with pytest.warns(UserWarning, match="dropped"):
        again.measure(encode, 2)
    assert [p.text for p in again.draw(2)] == ["bb", "a"]


def encode(prompt: Prompt) -> list[int]:
    return [0] * len(str(prompt.text))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=30), st.integers(1, 29))
def test_held_out_prompts_share_no_content_with_training(letters: list[str], count: int) -> None:
    source = Texts(*letters)
    try:
        data = PromptData(source, validation_size=count)
    except ValueError:
        reject()
    train, held = parts(data)["train"], parts(data)["validation"]
    assert len(held) == count
    assert not set(train) & set(held)
    assert Counter(train + held) == Counter(letters)
    turned = parts(PromptData(Texts(*letters[::-1]), validation_size=count, seed=5))["validation"]
    assert Counter(turned) == Counter(held)


class Secrets(PromptSource):
    """The same words for every prompt, and these answers."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers

    @property
    def size(self) -> int:
        return len(self.answers)

    def prompt(self, index: int) -> Prompt:
        return Prompt(id=str(index), text="Guess my word.", answer=self.answers[index])


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=30), st.integers(1, 29))
def test_prompts_that_differ_in_nothing_but_their_answers_can_be_split(answers: list[str], count: int) -> None:
    try:
        data = PromptData(Secrets(*answers), validation_size=count)
    except ValueError:
        assert count >= len(answers) or max(Counter(answers).values()) > 1
        reject()
    train, held = (answers_of(data, name) for name in ("train", "validation"))
    assert (len(held), Counter(train + held)) == (count, Counter(answers))
    assert not set(train) & set(held)


def test_held_out_secrets_are_not_trained_on_and_the_others_are() -> None:
    with pytest.warns(UserWarning, match="1 of 3"):
        data = PromptData(Secrets("a", "b", "c"), validation=Secrets("b", "x"))
    assert answers_of(data, "train") == ["a", "c"]


def test_a_question_whose_answer_is_written_in_two_ways_is_not_trained_on() -> None:
    with pytest.raises(ValueError, match="nothing left to train on"):
        PromptData(Secrets("7"), validation=Secrets("7.0"))


def test_training_prompts_that_are_evaluated_on_are_dropped_and_counted() -> None:
    with pytest.warns(UserWarning, match="2 of 4"):
        data = PromptData(Texts("a", "b", "c", "d"), validation=Texts("b", "x"), test=Texts("d"))
    assert parts(data)["train"] == ["a", "c"]
    assert data.sizes() == {"train": 2, "validation": 2, "test": 1, "dropped_overlap": 2, "dropped_too_long": 0}


def test_long_prompts_are_dropped_counted_and_named() -> None:
    data = PromptData(Texts("a", "bb", "ccc", "dddd"), max_prompt_tokens=3)
    with pytest.warns(UserWarning, match=r"of 4 train .* 2 .* more than 2 .*4.*'ccc/2'"):
        data.measure(encode, 2)
    assert parts(data)["train"] == ["a", "bb"]
    assert data.sizes()["dropped_too_long"] == 2
    with pytest.warns(UserWarning, match=r"1 .* 3"):
        data.measure(encode, 100)
    assert data.sizes()["train"] == 3


def test_long_prompts_can_be_refused_and_none_left_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"data\.too_long"):
        PromptData(Texts("a", "bb"), max_prompt_tokens=1, too_long="raise").measure(encode, None)
    with pytest.raises(ValueError, match="none"):
        PromptData(Texts("aa", "bb"), max_prompt_tokens=1).measure(encode, None)


def test_a_prompt_that_cannot_be_encoded_is_named() -> None:
    def refuse(prompt: Prompt) -> list[int]:
        raise KeyError("é")

    with pytest.raises(ValueError, match="'a/0'"):
        PromptData(Texts("a")).measure(refuse, None)


def test_endless_sources_count_on_and_keep_to_the_limit() -> None:
    data = PromptData(Endless())
    data.measure(encode, 5)
    assert [p.id for p in data.draw(3)] == ["0", "1", "2"]
    state = data.state_dict()
    with pytest.raises(ValueError, match=r"'5' .* 6 .* 5"):
        data.draw(3)
    again = PromptData(Endless())
    again.load_state_dict(state)
    assert [p.id for p in again.draw(1)] == ["3"]
    assert again.sizes()["train"] is None


def test_columns_are_those_that_every_prompt_has() -> None:
    assert PromptData(Texts("a", "b")).columns() == {"length"}
    assert PromptData(Texts("a", "b"), validation=Addition(examples=3)).columns() == set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"validation_size": 2}, "only 2 training prompts"),
        ({"train": Texts("a", "a", "b", "b"), "validation_size": 3}, "only 2 can be held out: set validation_size to 2"),
        ({"validation_size": 1, "validation": Texts("c")}, "give one of them"),
        ({"validation_size": -1}, "validation_size >= 0"),
        ({"validation_batch_size": 0}, "validation_batch_size >= 1"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens >= 1 or null"),
        ({"validation": Endless()}, "data.validation is endless"),
        ({"validation": Texts("a", "b")}, "nothing left to train on"),
        ({"train": Endless(), "validation_size": 1}, "endless training source"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PromptData(**{"train": Texts("a", "b"), **arguments})


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 5))
def test_evaluation_batches_cover_every_prompt_once_in_equally_many_batches(size: int, batch: int, ranks: int) -> None:
    source = Texts(*map(str, range(size)))
    loaders = [PromptBatches(source, batch, rank, ranks) for rank in range(ranks)]
    shards = [[batch.prompts for batch in loader] for loader in loaders]
    assert {len(shard) for shard in shards} == {len(loaders[0])}
    assert all(len(prompts) <= batch for shard in shards for prompts in shard)
    assert sorted(int(str(p.text)) for shard in shards for prompts in shard for p in prompts) == list(range(size))


def test_ticks_go_on_in_mid_epoch() -> None:
    ticks = StepNumbers(4)
    stream = iter(ticks)
    assert [next(stream), next(stream)] == [0, 1]
    later = StepNumbers(4)
    later.load_state_dict(ticks.state_dict())
    assert list(later) == [2, 3]
    assert list(later) == [0, 1, 2, 3]
