"""Which token a score is read at, whatever the padding; what becomes of it; what is refused."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_reward_model import RewardModel
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
)

ROWS = [("ab?", "c"), ("1+1=", "2 and not 3 "), ("a", ""), ("abcdefgh?", "hgfedcba</s>"), ("0?", "</s></s>")]
"""Of several lengths; two completions spell EOS, which is text: only what closes the turn is the token."""
PADDINGS: dict[str, dict[str, Any]] = {
    "right": {"pad": "<pad>", "side": "right"},
    "left": {"pad": "<pad>", "side": "left"},
    "pad_is_eos": {"pad": "</s>", "side": "right"},
    "no_pad": {"pad": None, "side": "right"},
}


def scores(path: Path, rows: Any, **arguments: Any) -> list[float]:
    return RewardModel(str(path), **arguments).score(rows).value.tolist()


def conversation(path: Path, prompt: str, completion: str) -> torch.Tensor:
    tokenizer = AutoTokenizer.from_pretrained(path)
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]
    return tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=False, sanitize_control_tokens=True)


@torch.no_grad()
def one_by_one(path: Path) -> list[float]:
    """The score that transformers gives each row alone, with nothing that it could take for padding."""
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    model.config.pad_token_id = None
    return [float(model(conversation(path, *row)).logits) for row in ROWS]


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_a_batch_scores_what_each_row_scores_alone(
    family: str, padding: str, folder: Callable[..., Path], rollout: Callable[..., Any]
) -> None:
    path = folder(family, **PADDINGS[padding])
    expected = one_by_one(path)
    assert max(expected) - min(expected) > 0.1
    for budget in (None, 40, 1):
        assert scores(path, rollout(*ROWS), batch_tokens=budget) == pytest.approx(expected, abs=1e-5)
    assert [scores(path, rollout(row))[0] for row in ROWS] == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
def test_where_padding_is_eos_transformers_reads_another_token(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder("llama", **PADDINGS["pad_is_eos"])
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    theirs = float(model(conversation(path, *ROWS[3])).logits)
    ours = scores(path, rollout(ROWS[3]))[0]
    assert ours == pytest.approx(one_by_one(path)[3], abs=1e-5)
    assert abs(theirs - ours) > 0.01


@torch.no_grad()
def test_the_mean_over_the_response_by_hand(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder("llama")
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    expected = []
    for prompt, completion in ROWS[:3]:
        hidden = model.model(conversation(path, prompt, completion)).last_hidden_state[0]
        # <s> <|user|> prompt </s> <|assistant|> completion </s>
        response = hidden[4 + len(prompt) :]
        assert len(response) == len(completion) + 1
        expected.append(float((response @ model.score.weight[0]).mean()))
    assert scores(path, rollout(*ROWS[:3]), pooling="mean") == pytest.approx(expected, abs=1e-5)


def test_sigmoid_and_clip_by_hand(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder()
    plain = scores(path, rollout(*ROWS))
    assert scores(path, rollout(*ROWS), sigmoid=True) == pytest.approx([1 / (1 + math.exp(-s)) for s in plain], abs=1e-6)
    low, high = sorted(plain)[1], sorted(plain)[3]
    assert scores(path, rollout(*ROWS), clip=(low, high)) == pytest.approx([min(max(s, low), high) for s in plain])
    bound = sorted(map(abs, plain))[2]
    assert scores(path, rollout(*ROWS), clip=bound) == pytest.approx([min(max(s, -bound), bound) for s in plain])


@torch.no_grad()
def test_one_output_of_several_is_chosen_by_name_or_number(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder(num_labels=3, id2label={0: "rude", 1: "kind", 2: "true"}, label2id={"rude": 0, "kind": 1, "true": 2})
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    expected = float(model(conversation(path, *ROWS[0])).logits[0, 1])
    assert scores(path, rollout(ROWS[0]), label="kind") == pytest.approx([expected], abs=1e-5)
    assert scores(path, rollout(ROWS[0]), label=1) == pytest.approx([expected], abs=1e-5)
    with pytest.raises(ValueError, match=r"3 outputs, .*label .*0 \(rude\), 1 \(kind\), 2 \(true\)"):
        RewardModel(str(path)).start()
    with pytest.raises(ValueError, match=r"'good'.*label .*0 \(rude\)"):
        RewardModel(str(path), label="good").start()


def test_a_folder_whose_scores_would_be_random_is_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    path = folder(name="lm")
    config = LlamaConfig(vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    LlamaForCausalLM(config).save_pretrained(path)
    with pytest.raises(ValueError, match=r"LlamaForCausalLM.*score\.weight"):
        RewardModel(str(path)).start()


def test_folders_that_are_no_reward_model_are_refused(folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'\./nothing'"):
        RewardModel("./nothing").start()
    with pytest.raises(ValueError, match=r"config\.json"):
        RewardModel(str(tmp_path)).start()
    path = folder(name="bert")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=1, **sizes)).save_pretrained(path)
    with pytest.raises(ValueError, match=r"BertForSequenceClassification .*`score`"):
        RewardModel(str(path)).start()
    with pytest.raises(ValueError, match=r"64 .*max_length .*65"):
        RewardModel(str(folder()), max_length=65).start()


@pytest.mark.parametrize(
    "arguments",
    [{"clip": 0.0}, {"clip": (2.0, 1.0)}, {"max_length": 0}, {"batch_tokens": 0}, {"pooling": "first"}, {"weight": 1, "error_window": 0}],
)
def test_arguments_outside_their_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="RewardModel"):
        RewardModel("a/b", **arguments)


def test_loading_and_scoring_leave_random_numbers_and_autocast_alone(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder(attention_dropout=0.5)
    plain = scores(path, rollout(*ROWS))
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16):
        assert scores(path, rollout(*ROWS)) == plain
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_copy_in_another_process_takes_no_weights_along(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    reward = RewardModel(str(folder()))
    expected = reward.score(rollout(*ROWS)).value.tolist()
    pickled = pickle.dumps(reward)
    assert len(pickled) < 2000
    assert pickle.loads(pickled).score(rollout(*ROWS)).value.tolist() == expected
    reward.close()
    assert reward.score(rollout(*ROWS)).value.tolist() == expected


def test_weights_can_be_smaller_and_the_head_keeps_its_digits(folder: Callable[..., Path], rollout: Callable[..., Any]) -> None:
    path = folder()
    full, half = scores(path, rollout(*ROWS)), scores(path, rollout(*ROWS), dtype="bfloat16")
    assert half != full
    assert half == pytest.approx(full, abs=0.1)
    # bfloat16 itself could not tell these from their rounded values
    assert torch.tensor(half).bfloat16().float().tolist() != half
