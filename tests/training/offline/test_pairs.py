"""Every form of preference data is read, and an error in a row names its prompt."""

from __future__ import annotations

from typing import Any

import pytest

from lightrl import Prompt, TinyPolicy
from lightrl.policy.policy import Policy
from lightrl.training.offline.pair_batch import encode_pairs
from lightrl.training.offline.preference_columns import labelled_text, paired_texts
from lightrl.types import JSON

ASKED = {"role": "user", "content": "2+2?"}
SYSTEM = {"role": "system", "content": "Be short."}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def policy(**changes: Any) -> Policy:
    return TinyPolicy(**{"hidden": 16, "layers": 1, "heads": 2, **changes}).build()


def text_prompt(**columns: JSON) -> Prompt:
    return Prompt(id="a", text="21=", columns=columns)


def chat_prompt(*turns: dict[str, str], **columns: JSON) -> Prompt:
    return Prompt(id="a", messages=tuple(turns), columns=columns)


def test_both_rows_begin_with_the_prompt_and_end_with_eos() -> None:
    subject = policy()
    shorter = Prompt(id="b", text="3=", columns={"chosen": "3", "rejected": "44"})
    pairs = encode_pairs(subject, [text_prompt(chosen="12", rejected="2"), shorter])
    assert pairs.lengths.tolist() == [6, 5]
    assert subject.decode(pairs.chosen_ids[0, :5]) == "21=12"
    assert pairs.chosen_mask.int().tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0]]
    assert pairs.rejected_mask.int().tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 0]]
    assert pairs.chosen_ids[0, 5] == pairs.rejected_ids[0, 4] == pairs.rejected_ids[1, 4] == 1
    ids, mask = pairs.stacked()
    assert ids[2:].equal(pairs.rejected_ids)
    assert mask[:2].equal(pairs.chosen_mask)


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        (chat_prompt(ASKED, chosen="4", rejected="5"), (ASKED,)),
        (chat_prompt(ASKED, chosen=[said("4")], rejected=[said("5")]), (ASKED,)),
        (chat_prompt(ASKED, chosen=[ASKED, said("4")], rejected=[ASKED, said("5")]), (ASKED,)),
        (chat_prompt(SYSTEM, ASKED, chosen=[ASKED, said("4")], rejected=[said("5")]), (SYSTEM, ASKED)),
        (chat_prompt(ASKED, said("4"), chosen=[ASKED, said("4")], rejected=[ASKED, said("5")]), (ASKED,)),
    ],
    ids=["texts", "assistant's message", "whole conversations", "a system prompt of the source", "implicit prompt"],
)
def test_forms_of_a_conversation(prompt: Prompt, asked: tuple[dict[str, str], ...]) -> None:
    question, better, worse = paired_texts(prompt)
    assert (question.messages, better, worse) == (asked, "4", "5")


def test_columns_are_named_by_arguments() -> None:
    assert paired_texts(text_prompt(good="12", bad="21"), "good", "bad")[1:] == ("12", "21")
    assert labelled_text(text_prompt(text="12", up=False), "text", "up") == ("12", False)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (text_prompt(chosen="12"), "'a' has no column 'rejected'. It has: chosen"),
        (text_prompt(chosen="12", reject="1"), "Did you mean 'reject'?"),
        (text_prompt(chosen="12", rejected="12"), "'a': columns 'chosen' and 'rejected' hold the same completion '12'"),
        (text_prompt(chosen="12", rejected=" "), "'a': column 'rejected' holds an empty completion"),
        (text_prompt(chosen=12, rejected="1"), "'a': column 'chosen' must hold a text or a list of messages .* got int 12"),
        (text_prompt(chosen=["12"], rejected="1"), "'a': column 'chosen' must hold messages"),
        (text_prompt(chosen=[], rejected="1"), "'a': column 'chosen' must hold messages"),
        (chat_prompt(ASKED, chosen=[said("4"), ASKED], rejected=[said("5")]), "must end with the assistant's message, got 'user'"),
        (chat_prompt(ASKED, chosen=[SYSTEM, said("4")], rejected=[said("5")]), "'chosen' does not begin with the prompt"),
        (chat_prompt(ASKED, said("4"), chosen=[ASKED, said("4")], rejected=[SYSTEM, said("5")]), "share no prompt"),
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_compared_is_named(prompt: Prompt, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_texts(prompt)


@pytest.mark.parametrize("label", [1, "true", None, 0.5])
def test_a_label_is_true_or_false(label: JSON) -> None:
    with pytest.raises(ValueError, match=r"'a': .*'label'"):
        labelled_text(text_prompt(completion="12", label=label))


def test_a_row_is_taken_whole_or_not_at_all() -> None:
    prompt = text_prompt(chosen="12", rejected="1234")
    assert encode_pairs(policy(max_positions=8), [prompt]).lengths.tolist() == [8]
    with pytest.raises(ValueError, match=r"'a' .* 8 .* 7 .*model\.max_length"):
        encode_pairs(policy(max_positions=7), [prompt])
    with pytest.raises(ValueError, match=r" 6 .* 512"):
        encode_pairs(policy(), [prompt], max_length=6)
