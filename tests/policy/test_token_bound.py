from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightrl.data.prompt_data import PromptData
from lightrl.data.tasks import DigitSorting
from lightrl.policy.tiny import character_tokenizer
from lightrl.text.encoding import encode_prompt
from lightrl.text.token_bound import TokenBound
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import Prompt

CHATML = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}\n{% endfor %}"
TEXTS = st.one_of(st.text(max_size=20), st.text("0123456789+= \n\u0344\u0958a", max_size=20))


def byte_level(normalizer: Any = None, lacks: str = "") -> Tokenizer:
    from tokenizers import Tokenizer as Inner
    from tokenizers import models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(lacks))
    inner = Inner(models.BPE({character: i for i, character in enumerate([*alphabet, "12"])}, [("1", "2")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer is not None:
        inner.normalizer = normalizer
    made: Tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", pad_token="<pad>")
    made.chat_template = CHATML
    return made


def composed() -> Tokenizer:
    from tokenizers import normalizers

    return byte_level(normalizers.NFC())


def with_gaps() -> Tokenizer:
    """No letter `=`, no line break, and no second byte of what is not ASCII."""
    return byte_level(lacks="=Ċ¡¢£¤¥¦§¨©")


def characters() -> Tokenizer:
    made = character_tokenizer("0123456789+=<|>user \n", 64)
    made.chat_template = CHATML
    return made


@pytest.fixture(scope="module", params=[byte_level, composed, with_gaps, characters])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    make: Callable[[], Tokenizer] = request.param
    return make()


@given(TEXTS, TEXTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_a_prompt_has_at_most_as_many_tokens_and_can_be_encoded(tokenizer: Tokenizer, first: str, text: str) -> None:
    bound = TokenBound(tokenizer)
    chat = Prompt(id="c", messages=({"role": "user", "content": text},))
    bound(Prompt(id="c", messages=({"role": "user", "content": first},)))
    for prompt in (Prompt(id="t", text=text), chat):
        if (most := bound(prompt)) is not None:
            assert 0 < len(encode_prompt(tokenizer, prompt).ids) <= most


def test_what_only_encoding_tells_is_unknown() -> None:
    bound, letters = TokenBound(byte_level()), TokenBound(characters())
    assert bound(Prompt(id="a", text="1212")) == 4
    assert letters(Prompt(id="a", text="12+")) == 3
    for text in ("", "  \n", "1<eos>"):
        assert bound(Prompt(id="a", text=text)) is None
    assert letters(Prompt(id="a", text="x")) is None
    assert letters(Prompt(id="a", text="1\n\n2")) == 4
    gaps = TokenBound(with_gaps())
    assert [gaps(Prompt(id="a", text=text)) for text in ("12+", "=", "1\n", "1\u00e9")] == [3, None, None, None]
    chat = Prompt(id="c", messages=({"role": "user", "content": "12"},))
    assert [bound(chat), bound(chat)] == [None, 2 + len("<|user|>\n")]
    without = byte_level()
    without.chat_template = None
    assert [TokenBound(without)(chat) for _ in range(2)] == [None, None]


def test_a_tokenizer_that_may_add_to_a_text_is_always_asked() -> None:
    from tokenizers import normalizers, pre_tokenizers

    widened, spaced = byte_level(normalizers.NFKC()), byte_level()
    spaced.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # type: ignore[assignment]
    assert [TokenBound(one)(Prompt(id="a", text="12")) for one in (widened, spaced)] == [None, None]


def test_only_prompts_that_may_be_too_long_are_encoded() -> None:
    asked = []

    def encode(prompt: Prompt) -> list[int]:
        asked.append(prompt.id)
        return [0] * 5 if prompt.id.endswith("7") else [0] * 4

    def kept(at_most: Callable[[Prompt], int | None]) -> dict[str, Any]:
        data = PromptData(DigitSorting(examples=50))
        data.measure(encode, 4, at_most)
        return data.state_dict() | {"sizes": data.sizes()}

    whole = kept(lambda prompt: None)
    assert len(asked) == 50
    asked.clear()
    assert kept(lambda prompt: 9 if prompt.id[-1] in "67" else 4) == whole
    assert 0 < len(asked) < 25
    assert all(name[-1] in "67" for name in asked)
