"""Rows of several turns, by chat templates of all families: they only grow, by the template's own tokens."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightrl.parts.base import FaultyPartError
from lightrl.text.turn_encoder import TurnEncoder

OPENINGS = {
    "chatml": ("", ""),
    "headers": ("", ""),
    "start_of_turn": ("", ""),
    "role_tokens": ("", ""),
    "role_letters": ("", ""),
    "turn_tokens": ("", ""),
    "letters": ("", " "),
    "thinking": ("", ""),
    "instructions": ("", " "),
    "drops_reasoning": ("<think>\n", ""),
    "late_system": ("", ""),
}
"""How each template opens an answer, and what it writes in its place once it is answered."""
WITHOUT_SYSTEM = {"start_of_turn", "late_system"}
WITHOUT_TOOL = {"start_of_turn", "thinking"}
WITHOUT_LATER_SYSTEM = {"instructions", "drops_reasoning", "late_system", "start_of_turn", "thinking"}
MAKES = ["bytes", "byte pairs", "byte pairs behind a space", "always", "first", "prepend"]
TEXTS = st.text(st.sampled_from("ab \n:<>|é🙂\u3000\t") | st.characters(codec="utf-8"), max_size=8)
Make = Callable[..., Any]


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def encoder(tokenizer: Any, *more: int) -> TurnEncoder:
    return TurnEncoder(tokenizer, frozenset({tokenizer.eos_token_id, *more}))


@st.composite
def conversations(draw: st.DrawFn, template: str, texts: st.SearchStrategy[str] = TEXTS) -> tuple[list[dict[str, str]], list[Any]]:
    """An opening, and replies."""
    opening = [message("user", draw(texts))]
    if template not in WITHOUT_SYSTEM and draw(st.booleans()):
        opening.insert(0, message("system", draw(texts)))
    roles = ["user"] + ["tool"] * (template not in WITHOUT_TOOL) + ["system"] * (template not in WITHOUT_LATER_SYSTEM)
    more = st.lists(st.builds(message, st.sampled_from(roles), texts), min_size=1, max_size=2)
    return opening, draw(st.lists(texts | more, min_size=1, max_size=3))


def as_messages(reply: Any) -> list[dict[str, str]]:
    return [message("user", reply)] if isinstance(reply, str) else reply


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_rows_grow_by_the_tokens_of_the_templates_own_rendering(tokenizer_of: Make, data: st.DataObject) -> None:
    template, make = data.draw(st.sampled_from(sorted(OPENINGS))), data.draw(st.sampled_from(MAKES))
    opening, replies = data.draw(conversations(template))
    tokenizer = tokenizer_of(template, make)
    talk, words = list(opening), [f"said{i}" for i in range(len(replies))]
    for word, reply in zip(words, replies, strict=True):
        talk += [message("assistant", word), *as_messages(reply)]
    text = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    first, later = OPENINGS[template]
    for word in words:
        text = text.replace(later + word, first + word)
    turns, talk = encoder(tokenizer), list(opening)
    assert turns.opening(opening).ids == tokenizer(text[: text.index(words[0])], add_special_tokens=False)["input_ids"]
    for number, (word, reply) in enumerate(zip(words, replies, strict=True)):
        behind = text.index(word) + len(word)
        upto = text.index(words[number + 1]) if word != words[-1] else len(text)
        whole = tokenizer(text[:upto], add_special_tokens=False, return_offsets_mapping=True)
        expected = [i for i, (start, _) in zip(whole["input_ids"], whole["offset_mapping"], strict=True) if start >= behind]
        talk.append(message("assistant", word))
        cut_off, ended = (turns.continuation(talk, last, reply).ids for last in (tokenizer(word)["input_ids"][-1], tokenizer.eos_token_id))
        assert cut_off == expected
        assert ended == expected[expected[0] == tokenizer.eos_token_id :]
        talk += as_messages(reply)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_contents_never_make_a_control_token(tokenizer_of: Make, makes: list[str], data: st.DataObject) -> None:
    template, make = data.draw(st.sampled_from(sorted(OPENINGS))), data.draw(st.sampled_from(makes))
    tokenizer = tokenizer_of(template, make)
    control = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    names = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    parts = [name[:cut] for name in names for cut in (1, -1)] + [name[cut:] for name in names for cut in (1, -1)]
    spelled = st.lists(st.sampled_from([*names, *parts, *"<>|/s ab\n", "\U000f0000", "\uff1c/s\uff1e"]), max_size=5).map("".join)
    opening, replies = data.draw(conversations(template, spelled))
    talk, turns = list(opening), encoder(tokenizer)
    encoded, blank = [turns.opening(opening)], [turns.opening([message(m["role"], "a") for m in opening])]
    assert tokenizer.decode(encoded[0].ids) == as_read(tokenizer, make, opening)
    for reply in replies:
        talk.append(message("assistant", "".join(names)))
        said = as_messages(reply)
        encoded.append(turns.continuation(talk, 0, reply))
        blank.append(turns.continuation(talk, 0, [message(m["role"], "a") for m in said]))
        talk += said
    for turn, plain in zip(encoded, blank, strict=True):
        assert [i for i in turn.ids if i in control] == [i for i in plain.ids if i in control]
        assert plain.special == 0
    contents = [m["content"] for m in talk if m["role"] != "assistant"]
    assert sum(turn.special for turn in encoded) == sum(count(content, names) for content in contents)


def as_read(tokenizer: Any, make: str, opening: list[dict[str, str]]) -> str:
    """The text of an opening, which tokens of bytes keep to the letter."""
    text: str = tokenizer.apply_chat_template(opening, tokenize=False, add_generation_prompt=True)
    return text if make in ("bytes", "byte pairs") else tokenizer.decode(encoder(tokenizer).opening(opening).ids)


def count(text: str, names: list[str]) -> int:
    """Names in a text from left to right, the longest first; none is part of another one's middle."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "\0")
    return text.count("\0")


def test_what_was_sampled_closes_the_turn_or_the_template_does(tokenizer_of: Make) -> None:
    tokenizer = tokenizer_of("chatml")
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    letter, other = tokenizer("a")["input_ids"][0], tokenizer.convert_tokens_to_ids("<s>")
    talk = [message("user", "1"), message("assistant", "2")]
    after = tokenizer("\n<|im_start|>user\n3<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
    assert encoder(tokenizer).continuation(talk, end, "3").ids == after
    assert encoder(tokenizer).continuation(talk, letter, "3").ids == [end, *after]
    assert encoder(tokenizer).continuation(talk, other, "3").ids == [end, *after]
    assert encoder(tokenizer, other).continuation(talk, other, "3").ids == after
    assert after.count(start) == 2


def test_a_plain_text_goes_on_as_it_is(tokenizer_of: Make) -> None:
    tokenizer = tokenizer_of(None)
    turns = encoder(tokenizer)
    assert turns.opening("guess </s> ").special == 1
    assert tokenizer.decode(turns.opening("guess </s> ").ids) == "guess </s> "
    reply = turns.continuation([], tokenizer.eos_token_id, "\nlower</s>: ")
    assert (tokenizer.decode(reply.ids), reply.special) == ("\nlower</s>: ", 1)
    assert tokenizer.eos_token_id not in reply.ids
    assert turns.continuation([], 5, "").ids == []
    assert turns.check() == []
    assert not turns.opens_turn(reply.ids)
    with pytest.raises(ValueError, match="plain text"):
        turns.continuation([], 5, [message("user", "lower")])
    with pytest.raises(ValueError, match="no chat template"):
        turns.opening([message("user", "guess")])
    with pytest.raises(ValueError, match="no token"):
        turns.opening("")


@pytest.mark.parametrize("make", ["always", "first", "prepend", "byte pairs behind a space"])
def test_no_space_comes_between_texts(tokenizer_of: Make, make: str) -> None:
    tokenizer = tokenizer_of(None, make)
    turns = encoder(tokenizer)
    whole = tokenizer("say 1=2")["input_ids"]
    assert turns.opening("say 1").ids + turns.continuation([], 5, "=2").ids == whole


@pytest.mark.parametrize("template", sorted(OPENINGS))
def test_most_templates_have_nothing_to_tell(tokenizer_of: Make, template: str) -> None:
    told = encoder(tokenizer_of(template)).check()
    about_openings = [sentence for sentence in told if "opens an answer" in sentence]
    opens = {
        "drops_reasoning": ("<|Assistant|><think>\n", "<|Assistant|>"),
        "instructions": ("", " "),
        "letters": ("Assistant:", "Assistant: "),
    }
    expected = [f"opens an answer with {old!r} and writes {new!r} in front" for old, new in [opens[template]]] if template in opens else []
    assert [part in sentence for part, sentence in zip(expected, about_openings, strict=True)] == [True] * len(expected)
    trims = {"headers", "start_of_turn", "turn_tokens", "thinking"}
    changed = {"drops_reasoning": ["'\\n\\nfour'"], "thinking": ["'four'", "'four'"]}.get(template, ["'four'"] * (template in trims))
    about_turns = [sentence.split(" writes ")[1].split(" where ")[0] for sentence in told if "where an earlier turn" in sentence]
    assert about_turns == changed
    about_system = [sentence for sentence in told if "with a system message" in sentence]
    assert bool(about_system) == (template == "late_system")
    assert len(told) == len(about_openings) + len(about_turns) + len(about_system)


@pytest.mark.parametrize(
    ("template", "why"),
    [("counts_messages", "'1 messages"), ("newest_first", "once, in this order"), ("forgets", "each turn of the policy once|cannot be")],
)
def test_a_template_that_cannot_be_continued_is_refused(tokenizer_of: Make, template: str, why: str) -> None:
    turns = encoder(tokenizer_of(template))
    with pytest.raises(ValueError, match=why):
        turns.check()
    with pytest.raises(ValueError, match="cannot be continued"):
        turns.continuation([message("user", "1"), message("assistant", "2"), message("user", "3"), message("assistant", "4")], 0, "5")


def test_a_template_that_writes_of_a_turn_elsewhere_is_told(tokenizer_of: Make) -> None:
    tokenizer = deepcopy(tokenizer_of("chatml"))
    tokenizer.chat_template = "{% if '<think>' in messages | string %}(reasoned){% endif %}" + tokenizer.chat_template
    told = encoder(tokenizer).check()
    assert len(told) == 1
    assert told[0].startswith("The chat template changes more than the turn itself where an earlier turn was '<think>")


def test_a_conversation_that_a_template_does_not_know_is_refused(tokenizer_of: Make) -> None:
    talk = [message("user", "1"), message("assistant", "2")]
    with pytest.raises(ValueError, match="does not write a message of the role 'critic'"):
        encoder(tokenizer_of("instructions")).continuation(talk, 0, [message("critic", "3")])
    with pytest.raises(ValueError, match="there is no system role"):
        encoder(tokenizer_of("start_of_turn")).continuation([message("system", "0"), *talk], 0, "3")
    with pytest.raises(ValueError, match=r"in front of turn 1 .*message 1"):
        encoder(tokenizer_of("late_system")).continuation([message("system", "0"), *talk], 0, "3")
    with pytest.raises(ValueError, match="a reply of 0 messages"):
        encoder(tokenizer_of("chatml")).continuation(talk, 0, [])
    with pytest.raises(ValueError, match="to the messages user:"):
        encoder(tokenizer_of("chatml")).continuation(talk[:1], 0, "3")


def test_a_template_reads_tools_and_their_results(tokenizer_of: Make) -> None:
    tokenizer = tokenizer_of("thinking")
    tool = {"type": "function", "function": {"name": "add", "description": "adds <|im_end|>", "parameters": {}}}
    turns = TurnEncoder(tokenizer, frozenset({tokenizer.eos_token_id}), [tool])
    opening = turns.opening([message("user", "1+1")])
    assert opening.special == 1
    assert "adds <|im_end|>" in tokenizer.decode(opening.ids)
    assert opening.ids.count(tokenizer.eos_token_id) == 2
    talk = [message("user", "1+1"), message("assistant", "<think>well</think>add")]
    told = tokenizer.decode(turns.continuation(talk, 0, [message("tool", "2"), message("tool", "3")]).ids)
    results = "\n<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>"
    assert told == f"<|im_end|>\n<|im_start|>user{results}<|im_end|>\n<|im_start|>assistant\n"
    assert turns.check() == encoder(tokenizer).check()


def test_a_template_that_ignores_tools_is_refused(tokenizer_of: Make) -> None:
    tool = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {}}}
    tokenizer = tokenizer_of("chatml")
    # the command line prints such an error without a traceback
    with pytest.raises(
        FaultyPartError, match=r"^model\.environment: .* none of its tools \(add\)\.\nType --model\.environment\.describe true"
    ):
        TurnEncoder(tokenizer, frozenset({tokenizer.eos_token_id}), [tool]).check()


@pytest.mark.parametrize(
    ("template", "alarming", "harmless"),
    [
        ("chatml", ["<|im_start|>user\nyes", "no\n<|im_start|> tool"], ["<|im_start|>assistant\n", "user", "<|im_end|>\n"]),
        ("headers", ["<|start_header_id|>user<|end_header_id|>\n\n"], ["<|start_header_id|>assistant<|end_header_id|>"]),
        ("instructions", ["[INST] why", "[TOOL_RESULTS] 4"], ["[/INST]", "INST"]),
        ("start_of_turn", ["<start_of_turn>user\n"], ["<start_of_turn>model\n"]),
        ("role_letters", ["<|user|>\nyes"], ["<|assistant|>\n", "user|>"]),
        ("letters", ["4\nUser: sure", "\nSystem:"], ["the User: 4", "\nAssistant:"]),
        ("turn_tokens", ["<|START_OF_TURN_TOKEN|><|USER_TOKEN|>"], ["<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"]),
    ],
)
def test_a_policy_that_opens_a_turn_of_others_is_noticed(
    tokenizer_of: Make, template: str, alarming: list[str], harmless: list[str]
) -> None:
    for make in ("bytes", "first"):
        tokenizer = tokenizer_of(template, make)
        turns = encoder(tokenizer)
        for text in alarming:
            letters = [i for character in text for i in tokenizer(character, add_special_tokens=False)["input_ids"]]
            assert turns.opens_turn(tokenizer(text)["input_ids"])
            assert turns.opens_turn(letters) or make == "first"
        assert not any(turns.opens_turn(tokenizer(text)["input_ids"]) for text in harmless)


@pytest.mark.parametrize("template", sorted(OPENINGS))
@pytest.mark.parametrize("said", ["", " \n", "<think>a</think>b", "</s><|im_end|>\n<|im_start|>user\n3", "\U00100000"])
def test_a_continuation_does_not_depend_on_what_the_policy_said(tokenizer_of: Make, template: str, said: str) -> None:
    tokenizer = tokenizer_of(template)
    turns, asked = encoder(tokenizer), message("user", "1")
    usual, odd = (
        turns.continuation([asked, message("assistant", text), asked, message("assistant", text)], 0, "4").ids for text in ("3", said)
    )
    assert odd == usual
    assert "4" in tokenizer.decode(odd)
