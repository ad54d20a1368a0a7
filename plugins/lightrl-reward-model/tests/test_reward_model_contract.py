"""The contract of every class that this package registers."""

from pathlib import Path

import torch
from lightrl_workshop import contract_tests
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification


def arguments(folder: Path) -> dict[str, object]:
    from lightrl_reward_model import RunningWhitening

    inner = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "a": 2, "b": 3, "x": 4}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", pad_token="</s>").save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    Qwen2ForSequenceClassification(Qwen2Config(vocab_size=5, num_labels=1, pad_token_id=1, **sizes)).save_pretrained(folder)
    return {"path": str(folder), "pooling": "mean", "whiten": RunningWhitening(mean=0.5), "clip": (-3.0, 3.0)}


test_contract = contract_tests("lightrl_reward_model", arguments={"RewardModel": arguments})
