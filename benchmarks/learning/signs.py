"""A policy of random weights learns a game of a task set of verifiers: GRPO over several turns, and a summary of what came of it.

    python -m benchmarks.learning.signs --seed 0 --out runs/signs

The game is `lightrl_guests/examples/signs.py`: a sign says which of six doors is the right one, in four rooms. The policy reads it and says
a number, and each is one token to it. The evaluation plays 2,000 games that no training has seen, at temperature 1. It needs `verifiers`.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import sys
from pathlib import Path

from lightrl_guests import VerifiersEnvironment, examples
from transformers import AutoTokenizer

from benchmarks import config_file
from benchmarks.demo_run import cpu_seconds, write_summary
from benchmarks.learning.games import learnt, mean_reward, seed_and_out
from benchmarks.learning.random_policy import write_word_policy

CONFIG = config_file("grpo_doors")
TASKSET, FOLDER = "signs", Path(str(examples.__file__)).parent
"""verifiers knows a task set by the name of a module, which has no dots."""
DOORS = [str(number) for number in range(1, 7)]
SAID = "red: blue: green: white: black: pink:"
TRAINED, GAMES = 20_000, 2000
"""Games of training, and those behind them that are held out."""
RANDOM, BOUND = 0.167, 1.0
"""Mean rewards of doors that are drawn, and of the right ones."""


def main() -> None:
    """Run the demonstration."""
    seed, out = seed_and_out(__doc__, "runs/signs")
    before = cpu_seconds()
    sys.path.insert(0, str(FOLDER))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    start = out / "start"
    write_word_policy(start, DOORS, SAID, seed)
    tokenizer = AutoTokenizer.from_pretrained(start)
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(start)
    environment = {"class_path": "VerifiersEnvironment", "init_args": {"taskset": TASKSET, "max_turns": 4}}
    policy = learnt(CONFIG, start, out, seed, "--model.environment", environment)
    seconds = cpu_seconds() - before
    first, last = held_out(start, seed), held_out(policy, seed)
    summary = {
        "seed": seed,
        "start_reward": round(first, 3),
        "final_reward": round(last, 3),
        "random_doors": RANDOM,
        "best": BOUND,
        "train_seconds": round(seconds, 1),
    }
    write_summary(out, summary)
    print(f"means of {GAMES} games at temperature 1; seconds of processor time of the training")


def held_out(policy: Path, seed: int) -> float:
    """The mean reward in games that no training has seen."""
    game = VerifiersEnvironment(TASKSET, max_turns=4)
    return mean_reward(policy, game, DOORS, [str(TRAINED + number) for number in range(GAMES)], seed, GAMES)


if __name__ == "__main__":
    main()
