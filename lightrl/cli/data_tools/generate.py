"""`lightrl generate`: completions of prompts of one's own, printed or written as JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightrl.config.read.refusals import ConfigError

if TYPE_CHECKING:
    from lightrl.parts.engine import RolloutEngine, Sampling
    from lightrl.parts.environment import Environment
    from lightrl.policy.policy import Policy
    from lightrl.policy.source import PolicySource
    from lightrl.types import Prompt, Rollout


def generate(words: list[str]) -> int:
    """Load a policy, complete the prompts, print or write one JSON value per completion."""
    options = _parser().parse_args(words)
    if not options.prompt and not options.prompts:
        raise ConfigError("lightrl generate", "there is no prompt.", 'Type --prompt "493027=", or --prompts FILE.jsonl')
    if options.out is not None and Path(options.out).exists():
        raise ConfigError("--out", f"{options.out!r} is there already.", "Name another file, or move it away.")
    from lightrl.text.chat_template import with_arguments

    try:
        source, engine, environment = _of(options.policy)
        # what is wrong with the prompts is said before the weights are read
        prompts = _prompts(options, chat=source.tokenizer().chat_template is not None and not options.raw)
        policy = source.build()
        tokenizer = policy.tokenizer
        tokenizer.chat_template = with_arguments(tokenizer.chat_template, options.chat_template_kwargs, "--chat_template_kwargs")
        wanted = {name: getattr(options, name) for name in ("temperature", "top_p", "max_new_tokens")}
        sampling = replace(engine.sampling, **{name: value for name, value in wanted.items() if value is not None})
        rollout = _rollout(policy, engine, environment, prompts, options.n, sampling)
    except ValueError as error:
        raise ConfigError("", str(error)) from error
    _write(rollout, options.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lightrl generate", description=__doc__)
    parser.add_argument("--policy", required=True, help="a folder, hub id or GGUF file, or a config (.yaml) whose model.policy is meant")
    parser.add_argument("--prompt", action="append", default=[], help="the prompt as text; may be repeated")
    parser.add_argument("--prompts", metavar="FILE", help="a .jsonl file with a column of prompts")
    parser.add_argument("--prompt-field", metavar="COLUMN", default="prompt", help="the column with the prompt; else prompt")
    parser.add_argument("--raw", action="store_true", help="continue the text as it is, also if the policy has a chat template")
    told = """arguments of the chat template, such as '{"enable_thinking": false}'"""
    parser.add_argument("--chat_template_kwargs", metavar="JSON", type=json_object, default={}, help=told)
    parser.add_argument("--n", type=int, default=1, help="completions per prompt")
    parser.add_argument("--temperature", type=float, help="divides the logits; 0 takes the likeliest token")
    parser.add_argument("--top_p", type=float, help="keep the likeliest tokens whose probabilities add up to this")
    parser.add_argument("--max_new_tokens", type=int, help="limit on the tokens of a completion")
    parser.add_argument("--out", metavar="FILE", help="write here in place of the terminal")
    return parser


def json_object(text: str) -> dict[str, Any]:
    """The JSON object in a text; a ValueError or TypeError if there is none."""
    return dict(json.loads(text))


def _prompts(options: argparse.Namespace, chat: bool) -> list[Prompt]:
    from lightrl.data.files import JsonLines
    from lightrl.types import Prompt

    given = [
        Prompt(id=str(i), messages=({"role": "user", "content": text},)) if chat else Prompt(id=str(i), text=text)
        for i, text in enumerate(options.prompt)
    ]
    if options.prompts is None:
        return given
    try:
        source = JsonLines(options.prompts, prompt=options.prompt_field, answer=None, chat=chat)
        source.prepare()
    except ValueError as error:
        raise ValueError(f"{error}\nAnother column of --prompts is named by --prompt-field COLUMN.") from error
    return given + [source.prompt(i) for i in range(source.size)]


def _rollout(policy: Policy, engine: RolloutEngine, environment: Environment, prompts: list[Prompt], n: int, sampling: Sampling) -> Rollout:
    from lightrl.policy.weights import TrainerWeights
    from lightrl.rollout.loop import RolloutLoop
    from lightrl.training.evaluating.canary import PolicyWatch

    rollouts = RolloutLoop(engine, environment, PolicyWatch(engine, policy))
    try:
        rollouts.update_weights(TrainerWeights(policy), 0)
        return rollouts.rollout(prompts, n, sampling)
    finally:
        rollouts.close()


def _of(path: str) -> tuple[PolicySource, RolloutEngine, Environment]:
    from lightrl.parts.environment import SingleTurn
    from lightrl.policy.source import PretrainedPolicy
    from lightrl.rollout.decode.transformers_engine import TransformersEngine

    if Path(path).suffix in (".yaml", ".yml"):
        return _from_config(path)
    return PretrainedPolicy(path), TransformersEngine(), SingleTurn()


def _from_config(path: str) -> tuple[PolicySource, RolloutEngine, Environment]:
    from lightrl.config.build.builder import Builder
    from lightrl.config.merge.resolve import resolve
    from lightrl.config.read.settings import read_words

    model = resolve("predict", read_words(["--config", path]), complete=False).model
    if "policy" not in model.arguments:
        raise ConfigError("model.policy", "not given.", f"Looked in: {path}")
    builder = Builder()
    with builder.refusals():
        policy: PolicySource = builder.build(model.value("policy"), "model.policy")
        engine: RolloutEngine = builder.build(model.value("engine"), "model.engine")
        environment: Environment = builder.build(model.value("environment"), "model.environment")
    return policy, engine, environment


def _write(rollout: Rollout, out: str | None) -> None:
    from lightrl.parts.environment import own_opening
    from lightrl.training.evaluating.evaluator import conversation

    rows = [
        {
            **prompt.columns,
            "prompt": own_opening(prompt),
            "completion": rollout.completions[i],
            "finish_reason": rollout.finish_reason[i],
            "tokens": int(rollout.response_lengths[i]),
            **conversation(rollout, i),
        }
        for i, prompt in enumerate(rollout.prompts)
    ]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    if out is None:
        sys.stdout.writelines(lines)
        return
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    sys.stdout.write(f"{len(lines)} completions: {path}\n")
