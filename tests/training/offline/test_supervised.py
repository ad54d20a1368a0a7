"""Supervised fine-tuning learns, stops at a validation accuracy, and hands on a folder."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import CSVLogger
from lightrl_workshop import quiet_trainer

from lightrl import (
    DigitSorting,
    PretrainedPolicy,
    Prompt,
    PromptData,
    PromptSource,
    RowReward,
    SupervisedFineTuning,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.callbacks.export_policy import ExportPolicy
from lightrl.text.turns import TURN_WEIGHTS
from lightrl.training.evaluating.evaluator import Evaluation
from lightrl.training.offline.supervised import ExampleReader


class Right(RowReward):
    """1 for the answer itself."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, answer: str) -> float:
        return float(completion == answer)


def trainer(tmp_path: Path, **changes: Any) -> Trainer:
    return quiet_trainer(num_sanity_val_steps=0, default_root_dir=tmp_path, **changes)


def module(**changes: Any) -> SupervisedFineTuning:
    settings: dict[str, Any] = {
        "policy": TinyPolicy(hidden=32, layers=2),
        "batch_size": 64,
        "rewards": {"right": Right()},
        "engine": TransformersEngine(max_new_tokens=4),
        "micro_batch_tokens": 256,
        "optimizer": lambda p: torch.optim.AdamW(p, lr=5e-3),
    }
    return SupervisedFineTuning(**{**settings, **changes})


def test_it_stops_at_the_accuracy_that_was_asked_for_and_exports_what_it_learnt(tmp_path: Path) -> None:
    stop = EarlyStopping("val/rewards/right/mean", mode="max", stopping_threshold=0.5, patience=1000)
    run = trainer(
        tmp_path, max_steps=400, val_check_interval=10, check_val_every_n_epoch=None, callbacks=[stop, ExportPolicy(str(tmp_path / "out"))]
    )
    subject = module()
    run.fit(subject, datamodule=PromptData(train=DigitSorting(length=2, examples=60), validation_size=20))
    assert run.global_step < 400
    assert run.callback_metrics["val/rewards/right/mean"] >= 0.5
    exported = PretrainedPolicy(str(tmp_path / "out")).build()
    for name, value in subject.policy.state_dict().items():
        assert torch.equal(value, exported.state_dict()[name])


def test_steps_and_epochs_are_what_lightning_says(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_epochs=2)
    run.fit(module(batch_size=16, rewards=None), datamodule=PromptData(train=DigitSorting(length=2, examples=50)))
    assert run.global_step == 8


def test_steps_are_logged_by_their_number_and_an_evaluation_by_that_of_the_step_before_it(tmp_path: Path) -> None:
    run = trainer(
        tmp_path,
        max_steps=5,
        val_check_interval=2,
        check_val_every_n_epoch=None,
        log_every_n_steps=2,
        logger=CSVLogger(tmp_path, name="run"),
    )
    run.fit(
        module(batch_size=4, rewards=None, evaluation=Evaluation()),
        datamodule=PromptData(train=DigitSorting(length=2, examples=50), validation_size=5),
    )
    with (Path(str(run.log_dir)) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    places = {name: [int(row["step"]) for row in rows if row[name]] for name in ("loss", "val/loss")}
    assert places == {"loss": [1, 3, 5], "val/loss": [0, 2, 4]}
    assert run.callback_metrics.keys() >= {"loss", "val/loss"}


class Talks(PromptSource):
    """Conversations of one to four turns, and prompts with answers."""

    size = 7

    def prompt(self, index: int) -> Prompt:
        if index == 0:
            return Prompt(id="0", text="12=", answer="21")
        turns = [{"role": ("user", "assistant")[i % 2], "content": f"{index}{i}" * (i + index)} for i in range(2 + 2 * (index % 2))]
        weights: list[Any] = [None] * len(turns)
        weights[1] = (None, 0.0, 0.5)[index % 3] if len(turns) > 2 else None
        return Prompt(id=str(index), messages=tuple(turns), meta={TURN_WEIGHTS: weights})


class Chatting(TinyPolicy):
    """A tiny policy with a chat template."""

    def tokenizer(self) -> Any:
        made = super().tokenizer()
        made.chat_template = (
            "{% for m in messages %}({{ m.content }}{% if m.role == 'assistant' %}<eos>{% endif %}){% endfor %}"
            "{% if add_generation_prompt %}({% endif %}"
        )
        return made


def chatting() -> Chatting:
    return Chatting(hidden=16, layers=1, heads=2, dtype="float64")


@pytest.mark.parametrize("learn_from", ["answers", "everything"])
@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("budget", [None, 16, 150])
def test_the_step_depends_on_neither_micro_batches_nor_packing_and_is_the_token_mean(
    tmp_path: Path, budget: int | None, learn_from: str
) -> None:
    source = Talks()
    subject = module(
        policy=chatting(), rewards=None, micro_batch_tokens=budget, learn_from=learn_from, batch_size=7,
        optimizer=lambda p: torch.optim.SGD(p, lr=1.0), max_grad_norm=None,
    )  # fmt: skip
    run = trainer(tmp_path, max_steps=1)
    run.fit(subject, datamodule=PromptData(train=source, shuffle=False))
    policy = chatting().build()
    examples = ExampleReader(policy, learn_from == "everything").encode([source.prompt(i) for i in range(7)])
    weight = examples.token_weight.double()
    loss = -(policy(examples.input_ids, weight > 0).logprobs * weight).sum() / weight.sum()
    loss.backward()
    assert float(run.callback_metrics["loss"]) == pytest.approx(float(loss.detach()), abs=1e-6)
    moved = subject.policy.state_dict()
    for name, parameter in policy.named_parameters():
        assert float((moved[name] - parameter.detach() + parameter.grad).abs().max()) <= 1e-7  # weights of tokens are float32


@pytest.mark.usefixtures("rows")
def test_budgets_give_one_gradient(tmp_path: Path) -> None:
    def moved(**changes: Any) -> list[torch.Tensor]:
        subject = module(
            policy=chatting(), rewards=None, batch_size=7, optimizer=lambda p: torch.optim.SGD(p, lr=1.0), max_grad_norm=None, **changes
        )
        trainer(tmp_path, max_steps=1).fit(subject, datamodule=PromptData(train=Talks(), shuffle=False))
        return [p.detach() for p in subject.policy.parameters()]

    whole = moved(micro_batch_tokens=None)
    cut = moved(micro_batch_tokens=40)
    assert max(float((a - b).abs().max()) for a, b in zip(whole, cut, strict=True)) <= 1e-10


@pytest.mark.usefixtures("rows")
def test_the_held_out_loss_is_that_of_training(tmp_path: Path) -> None:
    subject = module(policy=chatting(), rewards=None, micro_batch_tokens=100)
    (numbers,) = trainer(tmp_path).validate(
        subject, datamodule=PromptData(train=DigitSorting(), validation=Talks(), validation_batch_size=3), verbose=False
    )
    policy = chatting().build()
    examples = ExampleReader(policy).encode([Talks().prompt(i) for i in range(7)])
    with torch.no_grad():
        logprobs = policy(examples.input_ids, examples.token_weight > 0).logprobs
    assert numbers["val/loss"] == pytest.approx(float(-(logprobs * examples.token_weight).sum() / examples.token_weight.sum()), abs=1e-6)


def test_of_a_held_out_conversation_the_last_message_is_asked_for(tmp_path: Path) -> None:
    subject = module(policy=chatting(), micro_batch_tokens=None)
    data = PromptData(train=DigitSorting(), test=Talks())
    rows = trainer(tmp_path).predict(subject, datamodule=data)[0]  # type: ignore[index]
    assert [row["answer"] for row in rows] == ["21", *(Talks().prompt(i).messages[-1]["content"] for i in range(1, 7))]
    assert rows[1]["prompt"] == list(Talks().prompt(1).messages[:-1])


def test_weights_are_those_of_the_messages() -> None:
    talk = tuple({"role": role, "content": text} for role, text in zip(("user", "assistant") * 2, ("1", "22", "3", "4"), strict=True))

    def weights(everything: bool, *given: float | None) -> str:
        reader = ExampleReader(chatting().build(), everything)
        examples = reader.encode([Prompt(id="a", messages=talk, meta={TURN_WEIGHTS: list(given)} if given else {})])
        return "".join({0.0: "0", 0.5: "h", 1.0: "1"}[w] for w in examples.token_weight[0].tolist())

    # (1) (22<eos>) (3) (4<eos>)
    assert weights(False) == "000" + "01110" + "000" + "0110"
    assert weights(False, None, 0.0, None, None) == "000" + "00000" + "000" + "0110"
    assert weights(False, None, 0.5, None, None) == "000" + "0hhh0" + "000" + "0110"
    assert weights(True) == "011" + "11111" + "111" + "1111"
    assert weights(True, None, 0.0, None, 0.5) == "011" + "10001" + "111" + "1hh1"
    with pytest.raises(ValueError, match=r"'a' .*weight"):
        weights(False, None, 0.0, None, 0.0)


def test_plain_texts_are_learnt_from_as_a_whole() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    examples = ExampleReader(policy, everything=True).encode([Prompt(id="a", text="21="), Prompt(id="b", text="3=", answer=3)])
    assert examples.token_weight.tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]
    assert examples.input_ids[:, 3].tolist() == [1, 1]


class Given(PromptSource):
    """These prompts."""

    def __init__(self, *prompts: Prompt) -> None:
        self.prompts = prompts

    @property
    def size(self) -> int:
        return len(self.prompts)

    def prompt(self, index: int) -> Prompt:
        return self.prompts[index]


GOOD = [Prompt(id=f"good{i}", text=f"{i}=", answer=str(i)) for i in range(3)]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Prompt(id="bad", text="1="), "'bad' has no answer to imitate"),
        (Prompt(id="bad", messages=({"role": "user", "content": "1"}, {"role": "assistant", "content": "1"})), "'bad'.*no chat template"),
        (
            Prompt(id="bad", messages=({"role": "user", "content": "1"}, {"role": "assistant", "content": "1"}), answer="1"),
            "'bad' ends with the assistant's message and has an answer beside it",
        ),
    ],
)
def test_a_bad_row_is_named_before_the_first_step(tmp_path: Path, bad: Prompt, words: str) -> None:
    run = trainer(tmp_path, max_steps=1)
    with pytest.raises(ValueError, match=words):
        run.fit(module(batch_size=1, rewards=None), datamodule=PromptData(train=Given(*GOOD, bad)))
    assert run.global_step == 0


def test_rows_that_are_too_long_are_dropped_and_counted(tmp_path: Path) -> None:
    data = PromptData(train=Given(*GOOD, Prompt(id="long", text="123=", answer="123")))
    with pytest.warns(UserWarning, match=r"1 .* 5 tokens"):
        trainer(tmp_path, max_steps=1).fit(module(batch_size=1, rewards=None, max_length=5), datamodule=data)
    assert data.sizes()["train"] == 3
    assert data.sizes()["dropped_too_long"] == 1
    with pytest.raises(ValueError, match=r"max_prompt_tokens .*model\.max_length"):
        trainer(tmp_path, max_steps=1).fit(module(), datamodule=PromptData(train=Given(*GOOD), max_prompt_tokens=5))


def test_answers_end_with_eos_and_prompts_carry_no_loss() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2).build()
    examples = ExampleReader(policy).encode([Prompt(id="a", text="21=", answer="12"), Prompt(id="b", text="3=", answer=3)])
    assert examples.lengths.tolist() == [6, 4]
    assert examples.token_weight.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]]
    assert examples.input_ids[0, 5] == examples.input_ids[1, 3] == 1


def test_a_prompt_without_an_answer_and_a_row_that_is_too_long_are_named() -> None:
    policy = TinyPolicy(hidden=16, layers=1, heads=2, max_positions=8).build()
    with pytest.raises(ValueError, match=r"'a' .*answer"):
        ExampleReader(policy).encode([Prompt(id="a", text="21=")])
    with pytest.raises(ValueError, match=r"'b' .* 10 .* 8 "):
        ExampleReader(policy).encode([Prompt(id="b", text="2121=", answer="1122")])
