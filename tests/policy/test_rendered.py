"""A text that a chat template has rendered already keeps its control tokens where the data declare it, and nowhere else."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightrl_workshop import rollouts_with

from lightrl import JsonLines, Prompt, SingleTurn, TinyPolicy, TransformersEngine
from lightrl.parts.prompts import content_hash
from lightrl.policy.reward_network import RewardNetwork
from lightrl.text.encoding import encode_conversation, encode_prompt, encode_sampled
from lightrl.text.turn_encoder import TurnEncoder
from lightrl.training.setup.building import ControlTokenWarning

END, START = "<|im_end|>", "<|im_start|>"
RENDERED = f"{START}user\nwhat is 1+1?{END}\n{START}assistant\n"
Make = Callable[..., Any]


def source(folder: Path, content: Any = RENDERED, **arguments: Any) -> JsonLines:
    path = folder / "rendered.jsonl"
    path.write_text(json.dumps({"prompt": content, "answer": "2"}) + "\n")
    return JsonLines(str(path), **arguments)


def test_a_declared_text_has_the_ids_of_its_messages(tokenizer_of: Make, tmp_path: Path) -> None:
    tokenizer, prompt = tokenizer_of("chatml"), source(tmp_path, rendered=True).prompt(0)
    messages = Prompt(id="m", messages=({"role": "user", "content": "what is 1+1?"},))
    asked = encode_prompt(tokenizer, prompt)
    assert (asked.ids, asked.special) == (encode_prompt(tokenizer, messages).ids, 0)
    encoder = TurnEncoder(tokenizer, frozenset({tokenizer.eos_token_id}))
    assert encoder.opening(RENDERED, rendered=True).ids == asked.ids
    assert encoder.opening(RENDERED).special == 3


def test_the_completion_of_a_declared_text_spells_letters(tokenizer_of: Make, tmp_path: Path) -> None:
    tokenizer = tokenizer_of("chatml")
    row = encode_sampled(tokenizer, source(tmp_path, rendered=True).prompt(0), f"2{END}", tokenizer.eos_token_id)
    assert tokenizer.decode(row.ids[row.response :]) == f"2{END}{END}"
    assert row.ids[row.response :].count(tokenizer.eos_token_id) == 1


def test_a_text_that_is_not_declared_spells_letters(tokenizer_of: Make, tmp_path: Path) -> None:
    asked = encode_prompt(tokenizer_of("chatml"), source(tmp_path, chat=False).prompt(0))
    assert asked.special == 3
    assert tokenizer_of("chatml").eos_token_id not in asked.ids


def test_declared_and_not_declared_are_two_prompts(tmp_path: Path) -> None:
    declared, other = source(tmp_path, rendered=True).prompt(0), source(tmp_path, chat=False).prompt(0)
    assert content_hash(declared) != content_hash(other)
    assert Prompt.from_json(json.loads(json.dumps(declared.to_json()))) == declared


def test_a_reward_model_refuses_the_rendering_of_another_model(tokenizer_of: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rendered for the policy"):
        encode_conversation(tokenizer_of("chatml"), source(tmp_path, rendered=True).prompt(0), "2")


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ([{"role": "user", "content": "a"}], {}, r"rendered\.jsonl:1: .* must hold a rendered text, got a list"),
        ("a", {"system": "s"}, "leave out system and template"),
        ("a", {"template": "{prompt}"}, "leave out system and template"),
    ],
)
def test_what_cannot_be_rendered_is_refused(tmp_path: Path, content: Any, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        source(tmp_path, content, rendered=True, **arguments)


def test_a_rollout_begins_with_the_declared_tokens() -> None:
    policy = TinyPolicy(hidden=8, layers=1, heads=2).build()
    loop = rollouts_with(policy, TransformersEngine(max_new_tokens=2), SingleTurn())
    rollout = loop.rollout([Prompt(id="a", text="1<eos>2=", rendered=True)], 1)
    assert rollout.input_ids[0, :4].tolist() == [policy.tokenizer.convert_tokens_to_ids(token) for token in ("1", "<eos>", "2", "=")]


def warn_of(policy: Any, prompts: list[Prompt]) -> None:
    spelled = ControlTokenWarning(policy)
    for prompt in prompts:
        spelled.see(prompt)
    spelled.warn()


def test_a_run_warns_where_texts_look_rendered(tokenizer_of: Make, tmp_path: Path) -> None:
    tokenizer = tokenizer_of("chatml")
    policy: Any = SimpleNamespace(tokenizer=tokenizer, eos_token_ids=frozenset({tokenizer.eos_token_id}))
    for prompt in (source(tmp_path).prompt(0), source(tmp_path, chat=False).prompt(0)):
        with pytest.warns(UserWarning, match=r"^1 of 2 training prompts spell control tokens, for example '<\|im_start\|>' in"):
            warn_of(policy, [Prompt(id="plain", text="1+1="), prompt])
    letters: Any = RewardNetwork(TinyPolicy(hidden=16, layers=1).build())
    with pytest.warns(UserWarning, match="^1 of 1 training prompts spell control tokens, for example '<eos>' in"):
        warn_of(letters, [Prompt(id="a", text="1<eos>")])
    with warnings.catch_warnings(action="error"):
        warn_of(policy, [source(tmp_path, rendered=True).prompt(0)])
