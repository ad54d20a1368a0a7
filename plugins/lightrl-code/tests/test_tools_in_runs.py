"""Runs of policies that have tools: what a chat template must show, and what is logged where no call comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lightrl_code import ToolEnvironment
from lightrl_workshop import quiet_trainer

from lightrl import JsonLines, LoadedPolicy, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine

IGNORES = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
SHOWS = "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}" + IGNORES
ASCII = "".join(map(chr, range(32, 127))) + "\n"


def length(completion: str) -> float:
    return float(len(completion))


def trained(folder: Path, template: str, describe: bool = False) -> PolicyOptimization:
    """A module after one rollout of questions with a tool."""
    (folder / "asked.jsonl").write_text("".join(json.dumps({"prompt": f"{n}+85?"}) + "\n" for n in range(4)))
    policy = TinyPolicy(hidden=16, layers=1, alphabet=ASCII, max_positions=2048).build()
    policy.tokenizer.chat_template = template
    module = PolicyOptimization(
        policy=LoadedPolicy(policy.model, policy.tokenizer),
        algorithm="GRPO",
        rewards={"length": length},
        environment=ToolEnvironment(["lightrl_code.arithmetic.add"], describe=describe),
        engine=TransformersEngine(max_new_tokens=4),
        prompts_per_rollout=2,
    )
    data = PromptData(train=JsonLines(str(folder / "asked.jsonl"), answer=None))
    quiet_trainer(max_epochs=1).fit(module, datamodule=data)
    return module


def test_a_template_that_ignores_tools_ends_the_run_before_its_first_rollout(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shows none of its tools \(add\)"):
        trained(tmp_path, IGNORES)


@pytest.mark.parametrize(("template", "describe"), [(SHOWS, False), (IGNORES, True)])
def test_tools_that_are_shown_and_not_called_are_a_zero_in_the_log(tmp_path: Path, template: str, describe: bool) -> None:
    assert trained(tmp_path, template, describe).numbers["environment/tools/add/calls"] == 0
