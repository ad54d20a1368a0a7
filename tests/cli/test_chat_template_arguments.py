"""Arguments of a chat template apart from those of training: for held-out prompts, `generate` and `sample`; and tools that none shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightrl_workshop import quiet_trainer

from lightrl import BatchReward, JsonLines, PolicyOptimization, PretrainedPolicy, PromptData, Rollout, TinyPolicy, TransformersEngine
from lightrl.training.evaluating.evaluator import Evaluation

TEMPLATE = "{{ style | default('0') }}{% for m in messages %}{{ m.content }}{% endfor %}="
ALPHABET = "0123456789+= "


class Seen(BatchReward):
    """Keeps the tokens of every prompt that the policy answered."""

    runs = "inline"

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[list[int]] = []

    def score(self, rollout: Rollout) -> torch.Tensor:
        for ids, mask in zip(rollout.input_ids, rollout.response_mask, strict=True):
            self.prompts.append(ids[: int(mask.int().argmax())].tolist())
        return torch.arange(len(rollout.completions), dtype=torch.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A policy whose template takes `style`, in the folder where questions lie as well."""
    monkeypatch.chdir(tmp_path)
    policy = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=ALPHABET, seed=3).build()
    policy.tokenizer.chat_template = TEMPLATE
    policy.save(tmp_path / "policy")
    for name, plus in (("asked", 1), ("held", 5)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"prompt": f"{n}+{plus}"}) + "\n" for n in range(4)))
    return "policy"


def config(**evaluation: Any) -> dict[str, Any]:
    def questions(name: str) -> dict[str, Any]:
        return {"class_path": "JsonLines", "init_args": {"path": f"{name}.jsonl", "answer": None}}

    return {
        "rollouts": 1,
        "trainer": {"accelerator": "cpu", "logger": False},
        "model": {
            "policy": {"class_path": "PretrainedPolicy", "init_args": {"path": "policy"}},
            "algorithm": "GRPO",
            "rewards": {"digits": "lightrl_workshop.FirstDigits"},
            "engine": {"max_new_tokens": 4, "temperature": 1.0},
            "prompts_per_rollout": 2,
            "evaluation": evaluation,
        },
        "data": {"train": questions("asked"), "validation": questions("held")},
    }


def seen(trained: dict[str, Any], held_out: dict[str, Any] | None) -> set[str]:
    """The prompts of a run with an evaluation, as the policy saw them."""
    reward, policy = Seen(), PretrainedPolicy("policy", chat_template_kwargs=trained)
    module = PolicyOptimization(
        policy=policy,
        algorithm="GRPO",
        rewards={"seen": reward},
        engine=TransformersEngine(max_new_tokens=2),
        evaluation=Evaluation(chat_template_kwargs=held_out),
        prompts_per_rollout=4,
    )
    data = PromptData(train=JsonLines("asked.jsonl", answer=None), validation=JsonLines("held.jsonl", answer=None))
    quiet_trainer(max_epochs=1).fit(module, datamodule=data)
    return {policy.tokenizer().decode(ids, skip_special_tokens=True) for ids in reward.prompts}


@pytest.mark.parametrize(
    ("trained", "held_out", "first"),
    [({}, {"style": "7"}, "07"), ({"style": "6"}, {"style": "7"}, "67"), ({"style": "6"}, None, "66"), ({}, None, "00")],
)
def test_held_out_prompts_have_arguments_of_their_own(
    folder: str, trained: dict[str, Any], held_out: dict[str, Any] | None, first: str
) -> None:
    training, validation = first
    assert seen(trained, held_out) == {f"{training}{n}+1=" for n in range(4)} | {f"{validation}{n}+5=" for n in range(4)}


def test_generate_takes_arguments_as_the_policy_does(lightrl: Callable[..., Any], folder: str) -> None:
    def completions(policy: str, *words: str) -> list[str]:
        asked = [word for n in range(8) for word in ("--prompt", f"{n}+1")]
        answer = lightrl("generate", "--policy", policy, *asked, "--max_new_tokens", "16", *words)
        assert answer.status == 0, answer.err
        return [json.loads(line)["completion"] for line in answer.out.splitlines()]

    PretrainedPolicy(folder, chat_template_kwargs={"style": "77 77"}).build().save(Path("styled"))
    styled = completions("styled")
    assert completions(folder, "--chat_template_kwargs", '{"style": "77 77"}') == styled
    assert completions("styled", "--chat_template_kwargs", '{"style": "0"}') == completions(folder) != styled


def test_an_unknown_argument_is_refused_with_those_that_there_are(lightrl: Callable[..., Any], folder: str) -> None:
    Path("run.yaml").write_text(yaml.safe_dump(config()))
    words = ("--config", "run.yaml", "--model.evaluation.chat_template_kwargs.stile", "7")
    refused = [
        (lightrl("check", *words), "model.evaluation.chat_template_kwargs.stile"),
        (lightrl("validate", *words), "model.evaluation.chat_template_kwargs.stile"),
        (
            lightrl("generate", "--policy", folder, "--prompt", "1", "--chat_template_kwargs", '{"stile": 7}'),
            "--chat_template_kwargs.stile",
        ),
        (
            lightrl("sample", "--config", "run.yaml", "--out", "o.jsonl", "--model.policy.chat_template_kwargs.stile", "7"),
            "chat_template_kwargs.stile",
        ),
    ]
    for answer, key in refused:
        assert answer.status == 2
        assert f"{key}: the chat template has no such argument; it has style" in " ".join(answer.err.split())
        assert "Traceback" not in answer.err
    assert lightrl("check", "--config", "run.yaml", "--model.evaluation.chat_template_kwargs.style", "7").status == 0


def test_generate_wants_an_object(lightrl: Callable[..., Any], folder: str) -> None:
    answer = lightrl("generate", "--policy", folder, "--prompt", "1", "--chat_template_kwargs", "[7]")
    assert answer.status == 2
    assert "--chat_template_kwargs" in answer.err


def test_check_notices_a_template_that_shows_no_tools(lightrl: Callable[..., Any], folder: str) -> None:
    tools = {"class_path": "ToolEnvironment", "init_args": {"tools": ["lightrl_code.arithmetic.add"]}}
    run = config()
    run["model"] |= {"environment": tools, "engine": {"max_new_tokens": 4}}
    Path("run.yaml").write_text(yaml.safe_dump(run))
    answer = lightrl("check", "--config", "run.yaml")
    assert answer.status == 2
    assert "model.environment: the policy's chat template shows none of its tools (add)" in " ".join(answer.err.split())
    assert "--model.environment.describe true" in answer.err
    assert "Traceback" not in answer.err
