"""`lightrl check-model`: sound models pass, and every planted fault is named by the property that it breaks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_check_model import Check, TinyFamily, checks, families
from torch import Tensor, nn

from lightrl import Policy, TinyPolicy

TEMPLATE = (
    "{% for m in messages %}{{ m.role[0] + ':' + m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


def policy(plant: Callable[[nn.Module, Any, Tensor], Tensor] | None = None, template: str | None = None) -> Policy:
    """A tiny Llama; what its first layer gives is changed by a function of the layer, its arguments and its hidden states."""
    source = TinyPolicy(hidden=32, alphabet="".join(map(chr, range(32, 127))))
    made = source.build()
    model, tokenizer = made.model, made.tokenizer
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.2)
    if plant is not None:
        model.model.layers[0].register_forward_hook(lambda layer, arguments, hidden: plant(layer, arguments, hidden))
    tokenizer.chat_template = template
    return Policy(model, tokenizer)


def verdicts(found: list[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in found}


def wrong(made: Policy) -> set[str]:
    return {name for name, verdict in verdicts(list(checks(made))).items() if verdict == "wrong"}


def test_a_sound_model_passes_everything() -> None:
    found = list(checks(policy(template=TEMPLATE)))
    assert set(verdicts(found).values()) <= {"exact", "measured", "not applicable"}
    assert len(found) >= 18
    # what is compared with nothing cannot fail
    numbers = [check for check in found if check.ours is not None or check.model is not None]
    assert len(numbers) >= 15


def test_a_mask_that_shows_the_next_token() -> None:
    def shown(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return hidden + 0.5 * torch.roll(hidden, -1, 1)

    assert "causal" in wrong(policy(shown))


def test_a_state_that_leaks_from_row_to_row_of_a_batch() -> None:
    def leaks(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return hidden + 0.5 * hidden.mean(0, keepdim=True)

    assert wrong(policy(leaks)) >= {"order of rows", "gradient"}


def test_a_recurrent_state_that_leaks_between_packed_rows() -> None:
    def state(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return hidden + 0.2 * hidden.cumsum(1)

    found = {check.name: check for check in checks(policy(state))}
    assert found["packed rows"].verdict == "handled"
    assert found["packed rows"].model is not None
    assert found["packed rows"].model > 0.1
    assert found["gradient"].verdict == "exact"
    # a cache of keys and values does not keep this state
    assert found["decoding"].verdict == "refused"


def test_a_dropout_that_has_no_module() -> None:
    def drops(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return nn.functional.dropout(hidden, 0.1, training=layer.training)

    assert wrong(policy(drops)) >= {"dropout", "first-pass ratio"}


def test_a_cache_whose_positions_are_wrong() -> None:
    def other(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return hidden + 0.5 if hidden.shape[1] == 1 else hidden

    assert verdicts(list(checks(policy(other))))["decoding"] == "refused"


def test_a_number_of_the_model_that_is_not_saved() -> None:
    def scaled(layer: nn.Module, arguments: Any, hidden: Tensor) -> Tensor:
        return hidden * 2

    assert wrong(policy(scaled)) == {"save and load", "load by transformers"}


def test_a_template_that_drops_the_end_token() -> None:
    assert wrong(policy(template=TEMPLATE.replace("eos_token", "''"))) == {"end of a turn"}


def test_a_template_that_writes_earlier_turns_anew_is_said() -> None:
    template = TEMPLATE.replace("m.content }}", "(m.content if loop.last else m.content | upper) }}")
    found = {check.name: check for check in checks(policy(template=template))}
    assert found["append-only template"].verdict == "handled"


def test_an_encoder_that_sees_the_future() -> None:
    from transformers import BertConfig, BertLMHeadModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 0.2}
    tiny = TinyPolicy(hidden=32)
    model = BertLMHeadModel(BertConfig(vocab_size=24, eos_token_id=1, **sizes))
    assert "causal" in wrong(Policy(model, tiny.tokenizer()))


@pytest.mark.parametrize(
    ("family", "name"), [("seed_oss", "residual_dropout"), ("falcon", "hidden_dropout"), ("phimoe", "input_jitter_noise")]
)
def test_no_dropout_is_left(family: str, name: str) -> None:
    source = TinyFamily(family)
    assert getattr(source.config(), name) > 0
    found = {check.name: check for check in checks(source.build())}
    assert found["dropout"].verdict == found["first-pass ratio"].verdict == "exact"


def test_an_unknown_family_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="qwen3"):
        TinyFamily("lama")
    assert "llama" in families()


@pytest.mark.parametrize(("words", "status", "shown"), [(["--tiny", "llama"], 0, "exact"), (["/no/such/model"], 2, "/no/such/model")])
def test_the_command(words: list[str], status: int, shown: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lightrl", "check-model", *words]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == status, ended.stderr
    assert shown in ended.stdout + ended.stderr


@pytest.mark.parametrize("family", ["recurrent_gemma", "roberta"])
def test_a_model_whose_cache_gives_other_logits_is_refused(family: str) -> None:
    found = {check.name: check for check in checks(TinyFamily(family).build())}
    assert found["decoding"].verdict == "refused"
    assert "cache" in found["decoding"].says
