"""`lightrl reward attack`: try to earn the rewards of a config without doing the task.

Completions that answer nothing, copies of the prompt, constant answers, hedges, formats without an answer, answers of other rows, words to
a judge, forged code and more are scored as in training. What they earn is compared with what the data's own answers earn. Of an environment
that gives rewards, episodes are played without playing: one turn again and again, words that it says, copies. No policy is loaded.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lightrl.config import ConfigError

if TYPE_CHECKING:
    from lightrl import Prompt
    from lightrl.cli.data_tools.scoring_config import ScoringConfig
    from lightrl.rewards.given_completions import Encode
    from lightrl.rewards.reward_set import RewardSet
    from lightrl_attack.attacks import Attack
    from lightrl_attack.outcome import Earned, Verdict

EPILOG = """\
Any key of the config can be given after it, as for fit: --model.rewards.short.weight 0.5

A share of 1 is what the data's own answers earn, in the form that earns most, and 0 what the empty completion and nonsense earn. Where the
data have no answer, or none of its forms is rewarded, 1 is the largest total of any completion: name a column of good completions with
--own. An attack is a hole if the lower end of its 95 % interval is above --limit. Constant answers earn as much as the data are
one-sided.

Exit status: 0; 1 if there is a hole; 2 if something asked for is wrong.
"""
FORMS_TRIED = 2
"""Forms of answers, besides the bare one, in which constants and hedges are written: those that earn most."""


def reward_attack(words: list[str]) -> int:
    """Carry out `lightrl reward attack`; 1 if a reward can be earned without the task."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    for name, least in (("rows", 2), ("top", 1)):
        if getattr(options, name) < least:
            raise ConfigError(f"--{name}", f"expected {least} or more, got {getattr(options, name)}.")
    if not options.limit >= 0:
        raise ConfigError("--limit", f"expected 0 or more, got {options.limit}.")
    from lightrl.cli.data_tools import read_scoring_config

    config = read_scoring_config(parser, rest, ("whose prompts and rewards", "--config grpo_gsm8k"))
    if config is None:
        return 0
    found = _verdicts(config, options)
    from lightrl_attack.report import as_json, print_report

    if options.json:
        sys.stdout.write(json.dumps({name: as_json(one) for name, one in found.items()}, indent=2, ensure_ascii=False) + "\n")
    else:
        for name, one in found.items():
            print_report(one, options.top, f"model.{name}")
    return int(any(one.holes for one in found.values()))


def _verdicts(config: ScoringConfig, options: argparse.Namespace) -> dict[str, Verdict]:
    """Of the rewards of a config, and of its environment if that gives some."""
    from lightrl.cli.data_tools.offline_scoring import encode_with

    found: dict[str, Verdict] = {}
    model = config.resolved.model
    with config.refusals():
        chosen = model.value("environment") if "environment" in model.takes else None
        environment = None if chosen is None else config.builder.build(chosen, "model.environment")
        paying = environment if environment is not None and environment.gives_rewards else None
        rewards = config.rewards() if paying is None or model.value("rewards") else None
        data = config.builder.build(config.resolved.data, "data")
        prompts = data.draw(options.rows if data.size is None else min(options.rows, data.size))
    try:
        with config.refusals():
            if rewards is not None:
                for reward in rewards.rewards.values():
                    # within a group of attacks, a normalised score says nothing of its size
                    reward.normalize = None
                rewards.check(data.columns())
                encode = encode_with(rewards, config, options.tokens)
                of_rewards = attacked(rewards, prompts, options.own, options.limit, encode)
                if paying is None or any(one.mean > -math.inf for one in of_rewards.earned):
                    found["rewards"] = of_rewards
                else:
                    sys.stderr.write("model.rewards: no completion alone has a total; these rewards read what an episode leaves\n")
            if paying is not None:
                from lightrl_attack.episodes import attacked_environment

                paying.check(data.columns())
                found["environment"] = attacked_environment(paying, prompts, options.limit)
    finally:
        if rewards is not None:
            rewards.close()
    return found


def attacked(
    rewards: RewardSet, prompts: Sequence[Prompt], column: str | None = None, limit: float = 0.5, encode: Encode | None = None
) -> Verdict:
    """Try every attack on rewards.

    Args:
        rewards: of a run.
        prompts: n, with their answers.
        column: of good completions; None: the answer.
        limit: the largest share that an attack may earn.
        encode: gives the tokens that rewards may look at; None: every completion counts as one token.

    Raises:
        ConfigError: no prompt has the column.
    """
    from lightrl_attack.attacks import Attack, attacks
    from lightrl_attack.forms import FORMS, final, own_texts
    from lightrl_attack.outcome import verdict

    whole = own_texts(prompts, column)
    texts = [None if text is None else final(text) for text in whole]
    own = [Attack(form, "own", tuple(write.format(text or "") for text in texts)) for form, write in FORMS.items()]
    own.append(Attack("bare", "own", tuple(text or "" for text in whole)))
    of_own = _scored(rewards, prompts, own if any(texts) else [], encode)
    best = [one.attack.name for one in sorted(of_own, key=lambda one: -one.mean)]
    forms = dict.fromkeys(["bare", *best[:FORMS_TRIED]])
    return verdict(of_own, _scored(rewards, prompts, list(attacks(prompts, texts, list(forms))), encode), limit)


def _scored(rewards: RewardSet, prompts: Sequence[Prompt], tried: Sequence[Attack], encode: Encode | None) -> list[Earned]:
    from rich.console import Console
    from rich.progress import Progress

    from lightrl.rewards.given_completions import Findings, GivenCompletions, score_completions
    from lightrl_attack.outcome import earned_by

    if not tried:
        return []
    count = len(tried) * len(prompts)
    given = GivenCompletions(
        [prompt for prompt in prompts for _ in tried],
        [attack.completions[i] for i in range(len(prompts)) for attack in tried],
        ["stop"] * count,
    )
    parts = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"Scoring {count:,} completions", total=count)
        for part in score_completions(rewards, given, encode):
            parts.append(part)
            progress.advance(task, len(part.rows))
    found = Findings.concat(parts)
    at = {row: i for i, row in enumerate(found.rows)}
    places = [[at[i * len(tried) + number] for i in range(len(prompts))] for number in range(len(tried))]
    return [
        earned_by(attack, {name: part[rows] for name, part in found.contributions.items()})
        for attack, rows in zip(tried, places, strict=True)
    ]


def _parser() -> argparse.ArgumentParser:
    kind: Any = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("lightrl reward attack", None, __doc__, EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("--rows", metavar="N", type=int, default=24, help="training prompts that are tried (24)")
    parser.add_argument("--own", metavar="COLUMN", help="a column of good completions, in place of the answer")
    parser.add_argument("--limit", metavar="SHARE", type=float, default=0.5, help="the largest share that an attack may earn (0.5)")
    parser.add_argument(
        "--tokens", action="store_true", help="count tokens with the tokenizer of model.policy, for rewards that score them"
    )
    parser.add_argument("--top", metavar="N", type=int, default=12, help="how many attacks are shown (12)")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table, with every attack")
    return parser
