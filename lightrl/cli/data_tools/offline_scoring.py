"""Completions of a file on their way through the rewards of a config, and out into another file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import Progress

from lightrl.cli.data_tools.reward_report import number
from lightrl.cli.data_tools.scoring_config import ScoringConfig
from lightrl.config.read.refusals import ConfigError
from lightrl.data.completion_file import CompletionFile
from lightrl.parts.reward import BatchReward
from lightrl.rewards.given_completions import Encode, Findings, GivenCompletions, score_completions
from lightrl.rewards.reward_set import RewardSet
from lightrl.text.encoding import encode_sampled
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import Outcome, Prompt


def encode_with(rewards: RewardSet, config: ScoringConfig, wanted: bool) -> Encode | None:
    """A function that makes tokens of prompts and completions, if they are wanted or a reward is given whole rollouts; else None."""
    whole = [name for name, reward in rewards.rewards.items() if isinstance(reward, BatchReward)]
    if not (wanted or whole):
        return None
    why = "--tokens" if wanted else f"the reward {whole[0]!r} is given whole rollouts, tokens included"
    model = config.resolved.model
    if "policy" not in model.arguments:
        example = "Type for example: --model.policy PretrainedPolicy"
        raise ConfigError("model.policy", f"not given, and its tokenizer is needed: {why}.", example)
    return encoder_of(config.builder.build(model.value("policy"), "model.policy").tokenizer())


def encoder_of(tokenizer: Tokenizer) -> Encode:
    """Tokens as the policy of this tokenizer would have sampled them; a completion that was cut off has no EOS."""

    def encode(prompt: Prompt, text: str, finish_reason: str) -> tuple[list[int], int]:
        encoded = encode_sampled(tokenizer, prompt, text, tokenizer.eos_token_id if finish_reason == "stop" else None)
        return encoded.ids, encoded.response

    return encode


def scored(rewards: RewardSet, file: CompletionFile, encode: Encode | None, out: str | None) -> Findings:
    """Score every completion by all rewards; each row is written to `out` with its scores, as JSON lines, while they come."""
    completions = GivenCompletions([file.prompt(i) for i in range(file.size)], file.completions, file.finish_reasons)
    parts = []
    with _opened(out, file.path) as lines, Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Scoring", total=file.size)
        for part in score_completions(rewards, completions, encode):
            parts.append(part)
            progress.advance(task, len(part.rows))
            if lines is not None:
                lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(part, file))
                lines.flush()
    return Findings.concat(parts)


@contextmanager
def _opened(out: str | None, data: str) -> Iterator[IO[str] | None]:
    if out is None:
        yield None
        return
    path = Path(out)
    if path.exists() and path.samefile(data):
        raise ConfigError("--out", f"{out!r} is the file that is read.", "Name another one.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        yield file


def _rows(part: Findings, file: CompletionFile) -> Iterator[dict[str, Any]]:
    """The rows of the file with their scores; rows of one prompt stand together."""
    total = part.total
    for i, row in enumerate(part.rows):
        outcomes = {name: Outcome(int(outcome[i])).name.lower() for name, outcome in part.outcomes.items()}
        yield {
            **file.rows[row],
            "row": row + 1,
            "rewards": {name: number(raw[i]) for name, raw in part.raw.items()},
            "outcomes": outcomes,
            "contributions": {name: number(brought[i]) for name, brought in part.contributions.items()},
            "failures": {name: reasons[i] for name, reasons in part.failures.items() if reasons[i] is not None},
            "total": number(total[i]),
        }
