"""A reward model reads its own template and tokens and one BOS, and long prompts give way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_reward_model import RewardModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from lightrl import ConversationTokenizer, Prompt, TooLongConversation

TURNS = ({"role": "user", "content": "ab"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"})
BOS, EOS, USER, ASSISTANT, A = 2, 1, 4, 5, 6
"""Ids of the tests' tokenizer; letters follow from `a` on."""
WHOLE = [BOS, USER, A, A + 1, EOS, ASSISTANT, A + 2, EOS, USER, A + 3, EOS, ASSISTANT, A + 4, A + 5, EOS]


def tokenizer(path: Path, max_length: int | None = None) -> ConversationTokenizer:
    return ConversationTokenizer(AutoTokenizer.from_pretrained(path), max_length)


@torch.no_grad()
def test_the_model_reads_what_is_tokenised_by_hand(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder()
    tokens = tokenizer(path).encode(Prompt(id="p", messages=TURNS), "ef")
    assert tokens.ids == WHOLE
    assert tokens.response == 12
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    expected = float(model.score(model.model(torch.tensor([WHOLE])).last_hidden_state)[0, -1, 0])
    assert RewardModel(str(path)).score(rollout((TURNS, "ef"))).value.tolist() == pytest.approx([expected], abs=1e-5)


def test_a_prompt_of_text_is_a_user_turn(folder: Callable[..., Path]) -> None:
    read = tokenizer(folder()).encode
    assert read(Prompt(id="p", text="ab"), "c").ids == [BOS, USER, A, A + 1, EOS, ASSISTANT, A + 2, EOS]
    assert read(Prompt(id="p", text="ab"), "c") == read(Prompt(id="p", messages=({"role": "user", "content": "ab"},)), "c")


def test_without_a_template_text_follows_text_after_one_bos(folder: Callable[..., Path]) -> None:
    read = tokenizer(folder(template=None)).encode
    for text, unknown, spelled in (("ab", [], 0), ("<s>ab", [0, 0, 0], 1)):
        tokens = read(Prompt(id="p", text=text), "cd")
        assert tokens.ids == [BOS, *unknown, A, A + 1, A + 2, A + 3]
        assert tokens.response == len(unknown) + 3
        assert tokens.special == spelled
    assert read(Prompt(id="p", text="ab"), "").response == 2
    with pytest.raises(ValueError, match=r"'p' .*chat template"):
        read(Prompt(id="p", messages=TURNS), "c")


@torch.no_grad()
def test_a_template_of_the_config_replaces_the_tokenizers(folder: Callable[..., Path], rollout: Callable[..., Any], tmp_path: Path) -> None:
    path, file = folder(), tmp_path / "plain.jinja"
    file.write_text("<s>{% for m in messages %}{{ m['content'] }}{% endfor %}</s>")
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    hidden = model.model(torch.tensor([[BOS, A, A + 1, EOS]])).last_hidden_state
    expected = float(model.score(hidden)[0, -1, 0])
    for template in (file.read_text(), str(file)):
        found = RewardModel(str(path), chat_template=template).score(rollout(("a", "b")))
        assert found.value.tolist() == pytest.approx([expected], abs=1e-5)
    with pytest.raises(ValueError, match=r"'nothing\.jinja'"):
        RewardModel(str(path), chat_template="nothing.jinja").start()


def test_a_template_that_opens_the_answer_with_more_than_it_keeps(folder: Callable[..., Path]) -> None:
    opening = "{{ '<|assistant|>' if add_generation_prompt }}{{ '???' if add_generation_prompt }}"
    path = folder(template="{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}" + opening)
    tokens = tokenizer(path).encode(Prompt(id="p", text="ab"), "cd")
    assert tokens.ids == [USER, A, A + 1, ASSISTANT, A + 2, A + 3]
    assert tokens.response == 4


def test_the_prompt_gives_way_from_its_beginning_after_bos(folder: Callable[..., Path]) -> None:
    path, prompt = folder(), Prompt(id="p", messages=TURNS)
    cut = tokenizer(path, 10).encode(prompt, "ef")
    assert cut.ids == [BOS, *WHOLE[6:]]
    assert (cut.response, cut.truncated) == (7, True)
    assert tokenizer(path, 4).encode(prompt, "ef").ids == [BOS, *WHOLE[12:]]
    assert not tokenizer(path, len(WHOLE)).encode(prompt, "ef").truncated
    with pytest.raises(TooLongConversation, match=r"'p' .* 4 .* 3"):
        tokenizer(path, 3).encode(prompt, "ef")


@settings(deadline=None)
@given(question=st.text("abc", max_size=12), answer=st.text("def", max_size=6), limit=st.integers(1, 20))
def test_no_token_of_the_response_is_ever_cut(question: str, answer: str, limit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "tokenizer"
    if not path.exists():
        _write(path)
    prompt, free = Prompt(id="p", text=question), tokenizer(path)
    whole = free.encode(prompt, answer)
    try:
        cut = tokenizer(path, limit).encode(prompt, answer)
    except TooLongConversation:
        assert len(answer) + 2 > limit
        return
    assert len(cut.ids) == min(limit, len(whole.ids))
    assert cut.ids[cut.response :] == whole.ids[whole.response :] == [A + ord(c) - ord("a") for c in answer] + [EOS]


def _write(path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<unk>", "</s>", "<s>", "<pad>", "<|user|>", "<|assistant|>", *"abcdef"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    template = "<s>{{ messages[0]['content'] }}{% if messages[1] is defined %}{{ messages[1]['content'] }}</s>{% endif %}"
    PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", chat_template=template).save_pretrained(path)


def test_rows_that_were_cut_or_do_not_fit_are_counted(
    folder: Callable[..., Path], rollout: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    reward = RewardModel(str(folder()), max_length=12)
    result = reward.score(rollout(("ab", "c"), ("abcdefghij", "ab"), ("a", "abcdefghijabcdef")))
    assert result.value.isnan().tolist() == [False, False, True]
    assert result.statistics["truncated"].tolist() == [0, 1, 0]
    assert result.statistics["too_long"].tolist() == [0, 0, 1]
    assert "1 of 3 rows have no score; first: the answer to prompt 'p2' has 18 tokens" in caplog.text


def test_the_limit_is_the_models_where_none_is_given(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    result = RewardModel(str(folder())).score(rollout(("a" * 70, "b"), ("a" * 50, "b")))
    assert result.statistics["truncated"].tolist() == [1, 0]
