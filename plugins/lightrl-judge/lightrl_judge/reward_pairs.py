"""`lightrl reward pairs`: have a judge say which of two completions of a prompt is better, and write pairs for DPO and reward models.

The judge is the reward of the config that compares: one that wants the column `other`, such as JudgePair of lightrl-judge. It runs as in
training, with its limits, retries and budget. No policy is loaded.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightrl.config import ConfigError

if TYPE_CHECKING:
    from lightrl.cli.data_tools import ResumableRows, ScoringConfig
    from lightrl.data.completion_file import CompletionFile
    from lightrl.rewards.reward_set import RewardSet
    from lightrl.types import Prompt


OTHER = "other"
"""The argument of a reward that compares."""
EPILOG = """\
Any key of the config can be given after it, as for fit: --model.rewards.judge.max_requests 1000

The completions are those of `lightrl sample --keep all`, of `lightrl predict` with model.evaluation.samples of two and more, or of any
file with a row per completion. Blank ones, and those with the finish reason `length`, are left out.

What is written, prompt, chosen and rejected beside the file's other columns of the prompt, is read as it is by PreferenceOptimization and
RewardModeling. Ties, pairs about which the judge contradicts itself when their order is swapped, and pairs that it fails on are counted and
not written.

The file has its name when it is complete. An interrupted command goes on where it was when it is typed again.

Exit status: 0; 1 if no pair was decided, and no file is written; 2 if something asked for is wrong, or the judge fails too often; 130 if
it was interrupted.
"""


def reward_pairs(words: list[str]) -> int:
    """Carry out `lightrl reward pairs`; a ConfigError if config, file or a column is not as it must be, or the judge fails too often."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    from lightrl.cli.data_tools import read_scoring_config

    config = read_scoring_config(parser, rest, ("whose judge", "--config judge.yaml"))
    if config is None:
        return 0
    for name, example in (("data", "completions.jsonl"), ("out", "pairs.jsonl")):
        if getattr(options, name) is None:
            raise ConfigError(f"--{name}", "not given.", f"Type for example: --{name} {example}")
    if options.per_prompt < 1 or options.prompts_at_a_time < 1:
        raise ConfigError("--per_prompt", "this and --prompts_at_a_time must be 1 or more.")
    with config.refusals():
        return _run(options, config)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lightrl reward pairs",
        description=__doc__,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", metavar="FILE", help="one row per completion: .jsonl, .jsonl.gz or .parquet")
    parser.add_argument("--out", metavar="FILE", help="JSON lines; must not be there yet")
    for what in ("prompt", "completion", "answer"):
        parser.add_argument(f"--{what}-field", metavar="COLUMN", help=f"the column with the {what}; as for lightrl reward test")
    parser.add_argument("--per_prompt", metavar="K", type=int, default=1, help="most pairs of a prompt (1)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which completions are compared, and which is shown first (0)")
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N rows")
    parser.add_argument("--prompts_at_a_time", metavar="N", type=int, default=32, help="judged and written together (32)")
    return parser


def _run(options: argparse.Namespace, config: ScoringConfig) -> int:
    from lightrl.cli.data_tools import ResumableRows, completion_file

    file = completion_file(options, config.resolved.data)
    name, judge = _judge(config.rewards())
    if any(OTHER in row for row in file.rows):
        raise ConfigError("--data", f"the column {OTHER!r} is where the judge finds the other completion.", "Rename it in the file.")
    judge.check({OTHER}.union(set.intersection(*(set(file.prompt(i).columns) for i in range(file.size)))))
    work = comparisons(file, options.per_prompt, options.seed)
    lasting = ("per_prompt", "seed", "limit", "prompt_field", "completion_field", "answer_field")
    about = Path(options.data).expanduser().stat()
    request = {
        "options": {option: getattr(options, option) for option in lasting},
        "data": f"{options.data}, {about.st_size} bytes of {about.st_mtime}",
        "rewards": config.resolved.model.as_config()["init_args"]["rewards"][name],
    }
    rows = ResumableRows(options.out, request)
    try:
        return rows.carry_out(
            lambda: _fill(rows, judge, name, work, options.prompts_at_a_time),
            lambda: _summary(rows.counts),
            *("decided", "pairs", "No pair was decided"),
        )
    finally:
        judge.close()


def _judge(rewards: RewardSet) -> tuple[str, RewardSet]:
    from lightrl.rewards.reward_set import RewardSet

    names = rewards.wanting(OTHER)
    if len(names) != 1:
        found = f"{', '.join(names)} all do" if names else f"{', '.join(rewards.rewards)}: none does"
        raise ConfigError(
            "model.rewards",
            f"one reward must compare, that is want the column {OTHER!r}; {found}.",
            "Type for example: --model.rewards.judge JudgePair --model.rewards.judge.model NAME",
        )
    return names[0], RewardSet({names[0]: rewards.rewards[names[0]]})


def _fill(rows: ResumableRows, judge: RewardSet, name: str, work: Sequence[Sequence[Comparison]], step: int) -> None:
    from rich.console import Console
    from rich.progress import Progress

    if rows.state is not None:
        judge.load_state_dict(rows.state)
    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("Judging", total=len(work), completed=rows.done)
        while rows.done < len(work):
            prompts = work[rows.done : rows.done + step]
            found: Counter[str] = Counter(prompts=len(prompts), single=sum(not pairs for pairs in prompts))
            written = list(_labelled([pair for pairs in prompts for pair in pairs], judge, name, found))
            # what failed is not noted as done, so that it is tried again
            if (complaint := judge.spent()) is not None:
                raise ConfigError("model.rewards", " ".join(complaint.split()), f"{rows.done:,} prompts are done and kept.")
            rows.add(written, len(prompts), found, judge.state_dict())
            progress.update(task, completed=rows.done)


def _labelled(pairs: Sequence[Comparison], judge: RewardSet, name: str, found: Counter[str]) -> Iterator[dict[str, Any]]:
    """The rows of the pairs that are decided; all are counted."""
    from lightrl.rewards.given_completions import GivenCompletions, score_completions
    from lightrl.types import Outcome

    asked = [replace(pair.prompt, columns={**pair.prompt.columns, OTHER: pair.other}) for pair in pairs]
    completions = GivenCompletions(asked, [pair.one for pair in pairs], ["stop"] * len(pairs))
    for part in score_completions(judge, completions) if pairs else ():
        found.update({what: int(count) for what, count in part.counts[name].items()})
        for i, row in enumerate(part.rows):
            outcome, value = Outcome(int(part.outcomes[name][i])), float(part.raw[name][i])
            if outcome != Outcome.VALUE:
                found["undecided" if outcome == Outcome.ABSTAINED else "failed"] += 1
            elif value == 0.5:
                found["ties"] += 1
            else:
                found["decided"] += 1
                yield _row(pairs[row], first=value > 0.5)


def _row(pair: Comparison, first: bool) -> dict[str, Any]:
    from lightrl import own_opening

    prompt = pair.prompt
    chosen, rejected = (pair.one, pair.other) if first else (pair.other, pair.one)
    return {**prompt.columns, "prompt": own_opening(prompt), "answer": prompt.answer, "chosen": chosen, "rejected": rejected}


def _summary(counts: Mapping[str, float]) -> dict[str, float | str]:
    decided, ties, undecided, failed = (counts[name] for name in ("decided", "ties", "undecided", "failed"))
    answered = decided + ties + undecided
    return {
        "prompts": counts["prompts"],
        "prompts without two completions to compare": counts["single"],
        "pairs": answered + failed,
        "decided": decided,
        "ties": ties,
        "undecided: the order made the difference": undecided,
        "failed": failed,
        "agreement of the two orders": f"{1 - undecided / answered:.4f}" if answered else "-",
        **{name: counts[name] for name in ("requests", "tokens") if name in counts},
    }


@dataclass(frozen=True)
class Comparison:
    """Two completions of a prompt."""

    prompt: Prompt
    one: str
    other: str


def comparisons(file: CompletionFile, per_prompt: int, seed: int) -> list[list[Comparison]]:
    """For each prompt of a file some of its pairs of distinct completions, chosen and ordered by chance.

    Completions that are blank or were cut at the token limit are in none.
    """
    texts: dict[str, dict[str, None]] = {}
    prompts: dict[str, Prompt] = {}
    for i, (text, reason) in enumerate(zip(file.completions, file.finish_reasons, strict=True)):
        prompt = file.prompt(i)
        prompts.setdefault(prompt.id, prompt)
        of_prompt = texts.setdefault(prompt.id, {})
        if text.strip() and reason != "length":
            of_prompt[text] = None
    return [_drawn(prompt, list(texts[name]), per_prompt, random.Random(f"{seed}:{name}")) for name, prompt in prompts.items()]


def _drawn(prompt: Prompt, texts: Sequence[str], most: int, chance: random.Random) -> list[Comparison]:
    pairs = list(combinations(texts, 2))
    return [Comparison(prompt, *chance.sample(pair, 2)) for pair in chance.sample(pairs, min(most, len(pairs)))]
