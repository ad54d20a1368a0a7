"""Make a small Qwen2 policy with random weights and a tokenizer of its own, for tests and dry runs without a download.

    python examples/make_tiny_qwen.py runs/tiny-qwen --text gsm8k_train.jsonl --field question --field answer

The folder then serves as `model.policy: {class_path: PretrainedPolicy, init_args: {path: runs/tiny-qwen}}`. The weights are
random: train them with `SupervisedFineTuning` before reinforcement learning can find anything to reinforce.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """How large the model is."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int
    positions: int


SIZES = {
    "15m": Size(384, 6, 6, 2, 8192, 2048),
    "2m": Size(160, 5, 4, 2, 2048, 2048),
    "1m": Size(128, 4, 4, 2, 2048, 1024),
    "test": Size(32, 2, 4, 2, 384, 256),
}


def texts(path: Path, names: list[str]) -> Iterator[str]:
    """The named fields of every line of a JSON lines file."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            row = json.loads(line)
            for name in names:
                if name not in row:
                    raise SystemExit(f"{path}:{number} has no field {name!r}; it has: {', '.join(row)}")
                yield str(row[name])


def train_tokenizer(corpus: Iterator[str], size: Size) -> PreTrainedTokenizerFast:
    """Byte-level BPE, ChatML turns, `<|im_end|>` as EOS."""
    tokenizer = Tokenizer(models.BPE())
    # single digits, so that arithmetic does not depend on how a number was merged
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size.vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        chat_template=CHATML,
        model_max_length=size.positions,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, size: Size, seed: int) -> Qwen2ForCausalLM:
    """Random weights for this tokenizer's vocabulary."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=size.hidden,
            intermediate_size=7 * size.hidden // 2,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.key_value_heads,
            max_position_embeddings=size.positions,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def main(arguments: list[str] | None = None) -> None:
    """Train the tokenizer, build the model, write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--text", type=Path, required=True, help="JSON lines file with the text that the tokenizer is trained on")
    parser.add_argument("--field", action="append", required=True, help="field with text; may be given several times")
    parser.add_argument("--size", choices=SIZES, default="15m", help="about how many parameters")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    given = parser.parse_args(arguments)
    size = SIZES[given.size]
    tokenizer = train_tokenizer(texts(given.text, given.field), size)
    model = build_model(tokenizer, size, given.seed)
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    print(f"{given.folder}: Qwen2 with {model.num_parameters():,} parameters, vocabulary {len(tokenizer)}, {size.positions} positions")


if __name__ == "__main__":
    main()
