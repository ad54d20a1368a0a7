"""One way from a prompt and a completion to tokens: whoever needs them gets the same ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl import ConversationTokenizer, Policy, Prompt, TinyPolicy
from lightrl.cli.data_tools.offline_scoring import encoder_of
from lightrl.policy.reward_network import RewardNetwork
from lightrl.training.offline.labelled_batch import encode_labelled
from lightrl.training.offline.pair_batch import encode_pairs
from lightrl.training.offline.supervised import ExampleReader

TEMPLATE = "{% for m in messages %}{{ m.role[0] }}({{ m.content }}<eos>{% endfor %}{% if add_generation_prompt %}a({% endif %}"
EOS = 1
WORDS = st.text("abc0. (", min_size=1, max_size=6)
ANSWERS = WORDS.filter(str.strip)
TALKS = st.lists(WORDS, min_size=1, max_size=5).filter(lambda turns: len(turns) % 2 == 1)


@cache
def policy(template: str | None) -> Policy:
    made = TinyPolicy(hidden=8, layers=1, heads=2, alphabet="0123456789abcdefghijklmnopqrstuvwxyz(). ", max_positions=128).build()
    made.tokenizer.chat_template = template
    return made


@cache
def network(template: str | None) -> RewardNetwork:
    return RewardNetwork(policy(template))


def agree(subject: Policy, reader: RewardNetwork, prompt: Prompt, answer: str) -> list[int]:
    """The tokens, once everybody has been found to give them."""
    row = subject.encode_completion(prompt, answer)
    assert subject.encode(prompt) == row.ids[: row.response]
    assert subject.decode(row.ids[row.response :]) == answer
    scoring = encoder_of(subject.tokenizer)
    assert scoring(prompt, answer, "stop") == (row.ids, row.response)
    assert scoring(prompt, answer, "length") == (row.ids[:-1], row.response)
    labelled = encode_labelled(subject, [replace(prompt, columns={"completion": answer, "label": True})])
    pairs = encode_pairs(subject, [replace(prompt, columns={"chosen": answer, "rejected": answer + "a"})])
    assert labelled.input_ids.tolist() == [row.ids]
    assert pairs.chosen_ids[0, : len(row.ids)].tolist() == row.ids
    assert labelled.mask.tolist() == [[False] * row.response + [True] * (len(row.ids) - row.response)]
    assert ExampleReader(subject).read(replace(prompt, answer=answer)) == (row.ids, [float(m) for m in labelled.mask[0]])
    assert reader.encode(prompt, answer) == row.ids
    assert ConversationTokenizer(reader.tokenizer, None).encode(prompt, answer) == row
    return row.ids


@settings(max_examples=50, deadline=None)
@given(TALKS, ANSWERS)
def test_a_conversation_has_the_same_tokens_for_everybody(turns: list[str], answer: str) -> None:
    subject, messages = policy(TEMPLATE), tuple({"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns))
    ids = agree(subject, network(TEMPLATE), Prompt(id="p", messages=messages), answer)
    whole = Prompt(id="p", messages=(*messages, {"role": "assistant", "content": answer}))
    read, weights = ExampleReader(subject).read(whole)
    assert read == ids
    assert weights[-len(answer) - 1 :] == [1.0] * (len(answer) + 1)
    assert sum(weights) == len(answer) + 1 + sum(len(turn) + 1 for turn in turns[1::2])


@settings(max_examples=50, deadline=None)
@given(WORDS, ANSWERS)
def test_plain_text_has_the_same_tokens_for_everybody(text: str, answer: str) -> None:
    subject, prompt = policy(None), Prompt(id="p", text=text)
    ids = agree(subject, network(None), prompt, answer)
    assert ids[-1] == EOS
    # a reward model of another maker has no template that would close the answer
    assert ConversationTokenizer(subject.tokenizer, None).encode(prompt, answer).ids == ids[:-1]


def test_every_line_break_is_a_character_of_a_tiny_policy() -> None:
    tokenizer = TinyPolicy(hidden=8, layers=1, heads=2, alphabet="ab\n").tokenizer()
    assert tokenizer("a\n\n\nb", add_special_tokens=False)["input_ids"] == [2, 4, 4, 4, 3]
