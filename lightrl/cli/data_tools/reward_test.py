"""`lightrl reward test`: score completions of a file with the rewards of a config.

The rewards run as in training: names, weights, gates, normalisation over the completions of a prompt, time limits, workers, retries
and caches are the config's. No policy is loaded.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from lightrl.config.read.refusals import ConfigError
from lightrl.registry.classes import closest

if TYPE_CHECKING:
    from lightrl.data.completion_file import CompletionFile
    from lightrl.rewards.reward_set import RewardSet

EPILOG = """\
Any key of the config can be given after it, as for fit: --model.rewards.short.weight 0.5

Columns: the prompt (text, or messages with role and content), the reference answer and the completion. Rows with the same prompt form
a group, as its completions do in training. All other columns reach the rewards by their names.

Outliers come last. With --expect: those whose score and label differ most. Without: those whose total is furthest
from the mean of the prompt's other completions (of the whole file, where a prompt has one), in standard deviations of all totals;
among equals, those whose rewards differ most from each other, each in its own standard deviations.

Exit status: 0; 1 if --expect is given and a label has another score or none, or if no row has a total; 2 if something asked for is wrong.
"""


def reward_test(words: list[str]) -> int:
    """Carry out `lightrl reward test`; 1 if a label is contradicted, or no row has a total."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    from lightrl.cli.data_tools.completion_columns import completion_file
    from lightrl.cli.data_tools.offline_scoring import encode_with, scored
    from lightrl.cli.data_tools.scoring_config import read_scoring_config
    from lightrl.training.evaluating.evaluator import Evaluation

    config = read_scoring_config(parser, rest, ("whose rewards", "--config grpo_gsm8k"))
    if config is None:
        return 0
    if options.data is None:
        raise ConfigError("--data", "not given: which completions should be scored?", "Type for example: --data completions.jsonl")
    with config.refusals():
        rewards = config.rewards(options.rollout)
        model = config.resolved.model
        evaluation = model.value("evaluation") if "evaluation" in model.takes else None
        decides = Evaluation(correct=evaluation.value("correct") if evaluation else None).correct_reward(rewards.rewards)
    file = completion_file(options, config.resolved.data)
    expected = _expected(options.expect, file, rewards, decides)
    if wanting := rewards.wanting("answer") if file.answer is None else []:
        there = ", ".join(map(str, file.rows[0]))
        problem = f"the rewards {', '.join(wanting)} want an answer, and no column holds one. There are: {there}."
        raise ConfigError("--data", problem, "Type: --answer-field COLUMN")
    try:
        with config.refusals():
            rewards.check(set.intersection(*(set(file.prompt(i).columns) for i in range(file.size))))
            findings = scored(rewards, file, encode_with(rewards, config, options.tokens), options.out)
    finally:
        rewards.close()
    from lightrl.cli.data_tools.reward_report import Report

    report = Report(rewards, file, findings, expected, options.top)
    if options.json:
        sys.stdout.write(json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        report.print()
    if options.out is not None:
        sys.stderr.write(f"{len(findings.rows)} rows: {options.out}\n")
    return int(report.contradicted)


def _parser() -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("lightrl reward test", None, __doc__, EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("--data", metavar="FILE", help="one row per completion: .jsonl, .jsonl.gz or .parquet")
    for what, default in {"prompt": "prompt", "completion": "completion, or response", "answer": "answer"}.items():
        first = "" if what == "completion" else "what data.train of the config names, or "
        parser.add_argument(f"--{what}-field", metavar="COLUMN", help=f"the column with the {what}; else {first}{default}")
    parser.add_argument(
        "--expect",
        metavar="[REWARD=]COLUMN",
        help="a column of labels: true and false for REWARD, or for the one that says what is right in a validation, where a score above 0 "
        "is; the expected numbers, or 1 and 0, of REWARD or the total; null: no label",
    )
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N rows")
    parser.add_argument("--top", metavar="N", type=int, default=10, help="how many outliers to show (10)")
    parser.add_argument("--rollout", metavar="N", type=int, default=0, help="weights on a schedule are those after N rollouts (0)")
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="count tokens with the tokenizer of model.policy, for rewards that score them; done anyhow where a reward sees whole rollouts",
    )
    parser.add_argument("--out", metavar="FILE", help="write each row with its scores here, as JSON lines, while they come")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    return parser


def _expected(
    expect: str | None, file: CompletionFile, rewards: RewardSet, decides: str
) -> tuple[str | None, str, list[float | None]] | None:
    """The reward that is meant (None: the total), the column, and the label of each row; true and false are of the reward that decides."""
    if expect is None:
        return None
    name, equals, column = expect.rpartition("=")
    if equals and name not in rewards.rewards:
        problem = f"there is no reward {name!r}.{closest(name, rewards.rewards)} There are: {', '.join(rewards.rewards)}."
        raise ConfigError("--expect", problem)
    labels: list[bool | float | None] = []
    for number, row in enumerate(file.rows, 1):
        if column not in row:
            problem = f"row {number} has no column {column!r}.{closest(column, row)} It has: {', '.join(map(str, row))}."
            raise ConfigError("--expect", problem)
        label: Any = row[column]
        if label is not None and not isinstance(label, (bool, int, float)):
            raise ConfigError("--expect", f"row {number}: {column!r} is {label!r:.60}, expected true, false, a number or null.")
        labels.append(label)
    if not (given := {type(label) for label in labels if label is not None}):
        raise ConfigError("--expect", f"the column {column!r} is null in every row, so there is nothing to compare with.")
    return name if equals else decides if given == {bool} else None, column, [None if label is None else float(label) for label in labels]
