"""`lightrl sample`: draw completions of the training prompts, score them, and write those that are worth learning from.

The policy, the engine, the prompts and the rewards are those of a config, of any module that samples; with --ckpt_path the weights are
those of a checkpoint, whatever the strategy that wrote it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from lightrl.config import ConfigError

if TYPE_CHECKING:
    from lightrl.cli.data_tools import ScoringConfig
    from lightrl_rft.sample.rejection import Keep


KEEPS = ("best", "threshold", "pairs", "all")
TAKES = {"best": ("per_prompt", "at_least"), "threshold": ("per_prompt", "at_least"), "pairs": ("per_prompt", "margin"), "all": ()}
"""The options that each way to keep reads."""
EPILOG = """\
Any key of the config can be given after it, as for fit: --model.engine.temperature 0.8, --model.engine.seed 1 for other completions.

--keep best       the best completion of each prompt, or the --per_prompt best; only those with a reward of --at_least, if that is given
--keep threshold  every distinct completion with a reward of --at_least, or the --per_prompt best of them
--keep pairs      the best against the worst; nothing of a prompt whose rewards are all equal
--keep all        all of them, for `lightrl reward test` and `lightrl reward pairs`

Completions that were cut at the token limit, that are blank, or that a reward could not score are kept by `all` alone; of equal rewards
the completion that the policy finds likeliest comes first, and the same text is kept once.

What is written trains a policy as it is (text prompts: --data.train.chat false):
  lightrl sample --config grpo_sort --keep best --at_least 1 --out best.jsonl
  lightrl fit --config sft.yaml --data.train JsonLines --data.train.path best.jsonl --data.train.answer completion
  lightrl sample --config grpo_sort --keep pairs --out pairs.jsonl
  lightrl fit --config dpo.yaml --data.train JsonLines --data.train.path pairs.jsonl

The file has its name when it is complete. An interrupted command goes on where it was when it is typed again.

Exit status: 0; 1 if nothing was kept, and no file is written; 2 if something asked for is wrong, or a reward fails too often; 130 if it
was interrupted.
"""


def sample(words: list[str]) -> int:
    """Carry out `lightrl sample`; a ConfigError if the config, the checkpoint or the file is not as it must be, or a reward is broken."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    keep = _keep(options)
    from lightrl.cli.data_tools import read_scoring_config

    config = read_scoring_config(parser, rest, ("whose policy, prompts and rewards", "--config grpo_sort"), "predict", as_run=True)
    if config is None:
        return 0
    if options.out is None:
        raise ConfigError("--out", "not given: where to?", "Type for example: --out best.jsonl")
    module = config.resolved.model.cls
    if module.product != "policy":
        raise ConfigError("model", f"{module.__name__} makes a {module.product}, which samples nothing.")
    with config.refusals():
        return _run(options, config, keep)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lightrl sample", description=__doc__, epilog=EPILOG, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", metavar="N", type=int, default=8, help="completions per prompt (8)")
    parser.add_argument("--keep", choices=KEEPS, default="best", help="which of them are written (best)")
    parser.add_argument("--out", metavar="FILE", help="JSON lines; must not be there yet")
    parser.add_argument("--per_prompt", metavar="K", type=int, help="most rows of a prompt (best and pairs: 1)")
    parser.add_argument("--at_least", metavar="REWARD", type=float, help="lowest reward, all rewards of the config added up")
    parser.add_argument("--margin", metavar="REWARD", type=float, help="the rewards of a pair differ by more than this (0)")
    parser.add_argument("--prompts", metavar="N", type=int, help="how many training prompts, in the order of a run (each of them once)")
    parser.add_argument("--prompts_at_a_time", metavar="N", type=int, default=64, help="completed, scored and written together (64)")
    parser.add_argument("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ... (cuda where there is one)")
    return parser


def _keep(options: argparse.Namespace) -> Keep:
    from lightrl_rft.sample.rejection import keep_all, keep_best, keep_pairs

    for name in ("per_prompt", "at_least", "margin"):
        if getattr(options, name) is not None and name not in TAKES[options.keep]:
            known = [f"--{n}" for n in TAKES[options.keep]]
            raise ConfigError(f"--{name}", f"--keep {options.keep} has no use for it. It has for: {', '.join(known) or 'none'}.")
    for name, least in (("n", 1), ("per_prompt", 1), ("margin", 0), ("prompts", 1), ("prompts_at_a_time", 1)):
        if getattr(options, name) is not None and not getattr(options, name) >= least:
            raise ConfigError(f"--{name}", f"expected {least} or more, got {getattr(options, name)}.")
    if options.keep == "pairs" and options.n < 2:
        raise ConfigError("--n", f"a pair needs two completions of a prompt, got {options.n}.", "Type for example: --n 8")
    if options.keep == "threshold" and options.at_least is None:
        raise ConfigError("--at_least", "not given: which reward is good enough?", "Type for example: --at_least 1")
    if options.keep == "pairs":
        return partial(keep_pairs, per_prompt=options.per_prompt or 1, margin=options.margin or 0.0)
    if options.keep == "all":
        return keep_all
    per_prompt = options.per_prompt or (1 if options.keep == "best" else None)
    return partial(keep_best, per_prompt=per_prompt, at_least=options.at_least)


def _run(options: argparse.Namespace, config: ScoringConfig, keep: Keep) -> int:
    from lightrl.cli.data_tools import ResumableRows
    from lightrl.config import checkpoint_of
    from lightrl_rft.sample.sampling import SamplingSession

    path = checkpoint_of(config.resolved)
    chosen = {name: vars(options)[name] for name in ("n", "keep", "per_prompt", "at_least", "margin", "prompts_at_a_time")}
    environment = config.builder.build(config.resolved.model.value("environment"), "model.environment")
    rewards = config.rewards(environment=environment)
    # the settings that completions and rewards depend on, for the note of progress
    model = config.resolved.model.as_config()["init_args"]
    parts = {name: model.get(name) for name in ("policy", "engine", "environment")}
    identity = None if path is None else f"{path.resolve()} of {path.stat().st_mtime}"
    described = {"model": parts, "rewards": model.get("rewards"), "data": config.resolved.data.as_config()["init_args"]}
    rows = ResumableRows(options.out, {"options": chosen, "ckpt_path": identity, **described})
    try:
        return rows.carry_out(
            lambda: SamplingSession(config, path, rewards, environment, options).fill(rows, keep),
            lambda: _summary(rows.counts, options),
            *("kept", "rows", "Nothing was kept"),
        )
    finally:
        rewards.close()


def _summary(counts: Mapping[str, float], options: argparse.Namespace) -> dict[str, float | str]:
    """The counts of `rejection_counts`, summed over prompts, for a person."""
    prompts, scored = counts["prompts"], counts["completions"] - counts["failed"]
    right = "above 0" if options.at_least is None else f"of at least {options.at_least:g}"
    return {
        "prompts": prompts,
        "completions": counts["completions"],
        "without a score": counts["failed"],
        "cut at the token limit": counts["cut"],
        "blank": counts["blank"],
        "said before": counts["duplicates"],
        "mean reward": f"{counts['reward'] / scored:.4f}" if scored else "-",
        f"pass@1 (a reward {right})": f"{counts['pass_1'] / prompts:.4f}",
        f"pass@{options.n}": f"{counts['pass_n'] / prompts:.4f}",
        "rows kept": counts["kept"],
        "prompts without one": counts["without"],
    }
