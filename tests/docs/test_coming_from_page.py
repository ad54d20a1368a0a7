"""The page for those who know another library: its commands are accepted, its table is the table of the errors."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightrl.config.read.refusals import libraries

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from.md").read_text()
COMMANDS = [shlex.split(line)[2:] for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def files(write: Callable[..., Path]) -> None:
    from lightrl import TinyPolicy

    function = re.search(r"def reward_short.*?\n\n", PAGE, re.DOTALL)
    write("my_rewards.py", function[0] if function else "")
    write("train.jsonl", "".join(f'{{"question": "{i}+{i}=", "answer": "{2 * i}"}}\n' for i in range(700)))
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable, max_positions=2048).build()
    policy.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    policy.save("policy")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("words", COMMANDS, ids=["TRL", "verl", "OpenRLHF"])
def test_our_quickstarts_are_accepted(words: list[str], lightrl: Callable[..., Any]) -> None:
    ours = ["policy" if word.startswith("Qwen/") else word for word in words]
    answer = lightrl("check", *ours, "--trainer.devices", "1")
    assert answer.status == 0, answer.err


def test_the_table_is_that_of_the_errors() -> None:
    rows = [re.findall(r"`([^`]+)`|\| *(?=\|)", row) for row in re.findall(r"^\| `.*$", PAGE, re.MULTILINE)]
    assert len(rows) > 5
    for *theirs, ours in rows:
        for (library, options), option in zip(libraries().items(), theirs, strict=True):
            if option:
                assert options[option] == ours, (library, option)
