"""A policy of random weights learns a game that is written for TRL: GRPO over several turns, and a summary of what came of it.

    python -m benchmarks.learning.higher_lower --seed 0 --out runs/higher_lower

The class is `lightrl_guests.higher_lower.HigherLower`, which imports nothing of lightrl. To the policy each call is one token, so that
random weights call now and then. The evaluation plays 2,000 games that no training has seen, at temperature 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import statistics
from pathlib import Path

import torch
from lightrl_guests import TRLEnvironment
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import episodes, learnt, seed_and_out

CONFIG = config_file("grpo_higher_lower")
LARGEST, COST, TURNS = 5, 0.3, 3
CALLS = [f"[guess({number})]" for number in range(1, LARGEST + 1)]
SAID = "Guess a number from 1 to 5. higher; lower; right; Error: ValueError: the game is over;"
GAMES = 2000
BLIND, BOUND = 0.42, 0.64
"""Mean rewards without hints and without repetition, (1 + 0.7 + 0.4) / 5, and of binary search, (1 + 2 * 0.7 + 2 * 0.4) / 5."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/higher_lower")
    before = cpu_seconds()
    start = out / "start"
    write_start(start, seed)
    policy = learnt(CONFIG, start, out, seed)
    seconds = cpu_seconds() - before
    summary = {
        "seed": seed,
        "start_reward": round(mean_reward(start, seed), 3),
        "final_reward": round(mean_reward(policy, seed), 3),
        "no_hints": BLIND,
        "binary_search": BOUND,
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print(f"means of {GAMES} games at temperature 1; seconds of processor time")


def write_start(folder: Path, seed: int) -> None:
    """Write a policy of random weights, to which calls and the characters that the game says are tokens."""
    names = ["<pad>", "<eos>", *CALLS, *sorted({*SAID, "?"})]
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\[guess\(\d\)\]|."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", model_max_length=512).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=0, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def mean_reward(policy: Path, seed: int) -> float:
    """Play games that no training has seen."""
    game = TRLEnvironment(
        "lightrl_guests.higher_lower.HigherLower",
        arguments={"largest": LARGEST, "cost": COST},
        call_format="python",
        response=" {result};",
        chat=False,
        max_turns=TURNS,
    )
    game.runs = "inline"
    found = episodes(policy, game, [")]"], [f"held out {number}" for number in range(GAMES)], seed)
    return statistics.fmean(sum(reward or 0.0 for reward in episode.rewards) for episode in found)


if __name__ == "__main__":
    main()
