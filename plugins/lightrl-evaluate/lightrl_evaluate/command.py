"""`lightrl evaluate`: scores of lm-eval for a policy, or for the policy in a checkpoint, whose run gets them in its log."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lightrl.config import ConfigError
from lightrl.workers.waiting import waiting

if TYPE_CHECKING:
    import torch

    from lightrl import Policy
    from lightrl_evaluate.harness import Score

EPILOG = """\
The numbers are those of: lm_eval --model hf --model_args pretrained=FOLDER --tasks ... --batch_size N

  lightrl evaluate --policy my_model --tasks arc_easy gsm8k --limit 100
  lightrl evaluate --config grpo --ckpt_path last --tasks gsm8k
  lightrl evaluate --policy my_model --tasks sums --include my_tasks --trust_tasks
"""


def evaluate(words: list[str]) -> int:
    """Carry out `lightrl evaluate`; what cannot be is refused before weights are read."""
    options, rest = _parser().parse_known_args(words)
    _refuse(options, rest)
    from lightrl_evaluate.harness import Settings, scores, tasks_named

    try:
        with waiting("reading the list of tasks"):
            manager = tasks_named(options.tasks, options.include)
        device = _device(options.device)
        policy, run, place = _policy(options, rest)
        policy.to(device)
        settings = Settings(options.limit, options.num_fewshot, options.batch_size, options.apply_chat_template)
        found = scores(policy, options.tasks, settings, manager)
    except ValueError as error:
        raise ConfigError("lightrl evaluate", str(error)) from error
    _print(found)
    if options.out is not None:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        Path(options.out).write_text(json.dumps([asdict(score) for score in found], indent=2) + "\n")
    if (log := Path(options.log) if options.log else run) is not None:
        add_to_log(log, found, place)
        sys.stdout.write(f"Added to the log of {log}, at {place}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="lightrl evaluate", description=__doc__, epilog=EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("--policy", metavar="PATH", help="a folder, hub id or GGUF file")
    parser.add_argument("--ckpt_path", metavar="PATH", help="in its place: file or DeepSpeed folder; last: the newest of a config's runs")
    parser.add_argument("--config", metavar="FILE", help="of the checkpoint's run; by default the config.yaml that the run wrote above it")
    parser.add_argument("--tasks", nargs="+", required=True, metavar="NAME", help="tasks, groups or tags of lm-eval")
    parser.add_argument("--include", metavar="FOLDER", help="with task files of your own; needs --trust_tasks")
    parser.add_argument("--trust_tasks", action="store_true", help="let task files run the code that is in them")
    parser.add_argument("--limit", type=int, help="rows of each task; else all")
    parser.add_argument("--num_fewshot", type=int, help="examples before a question; else as the task says")
    parser.add_argument("--batch_size", type=int, default=8, help="rows of one forward pass; else 8")
    parser.add_argument("--device", help="such as cpu or cuda:1; else the first GPU where there is one")
    parser.add_argument("--apply_chat_template", action="store_true", help="ask in the form of the policy's chat template")
    parser.add_argument("--out", metavar="FILE", help="write the scores here, as JSON")
    parser.add_argument("--log", metavar="RUN", help="folder of a run that gets the scores; else that of the checkpoint")
    return parser


def _refuse(options: argparse.Namespace, rest: list[str]) -> None:
    if (options.policy is None) == (options.ckpt_path is None):
        raise ConfigError("lightrl evaluate", "give either --policy or --ckpt_path.", "See: lightrl evaluate --help")
    if options.policy is not None and (rest or options.config):
        raise ConfigError((rest or ["--config"])[0], "is for --ckpt_path, and --policy is given.", "See: lightrl evaluate --help")
    if options.include is not None and not Path(options.include).is_dir():
        raise ConfigError("--include", f"there is no folder {options.include!r}.")
    if options.include is not None and not options.trust_tasks:
        problem = "a task file can run code: lm-eval imports functions that it names, and fills its templates in without a sandbox."
        raise ConfigError("--include", problem, f"Read the files of {options.include}, and add --trust_tasks.")
    if options.out is not None and Path(options.out).exists():
        raise ConfigError("--out", f"{options.out!r} is there already.", "Name another file, or move it away.")
    for name in ("limit", "batch_size"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise ConfigError(f"--{name}", f"must be 1 or more, got {given}.")
    if options.log is not None and not _has_log(Path(options.log)):
        raise ConfigError("--log", f"there is no log of TensorBoard in {options.log!r}.", "Type for example: --log runs/grpo/version_0")


def _has_log(run: Path) -> bool:
    """A log of another logger is left alone: beside event files the report would not read it."""
    return any(run.glob("events.out.tfevents.*"))


def _policy(options: argparse.Namespace, rest: list[str]) -> tuple[Policy, Path | None, int]:
    """The policy, the folder of its run, and where in the log of the run it is."""
    from lightrl import PretrainedPolicy

    if options.policy is not None:
        return PretrainedPolicy(options.policy).build(), None, 0
    from lightrl.config import checkpoint_and_config, trained_policy
    from lightrl.strategies.checkpoint_weights import notes_in, trained_weights

    path, resolved = checkpoint_and_config(options.ckpt_path, options.config, rest)
    if resolved.model.cls.product != "policy":
        raise ConfigError("--ckpt_path", f"the run trained a {resolved.model.cls.product}, and lm-eval scores policies.")
    with waiting("reading the checkpoint"):
        policy = trained_policy(resolved, trained_weights(path), path)
    run = path.resolve().parent.parent
    return policy, run if _has_log(run) else None, int(notes_in(path)["run"]["steps"])


def _device(wanted: str | None) -> torch.device:
    import torch

    try:
        device = torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError("--device", f"{wanted!r} cannot be used: {str(error).splitlines()[0]}", "Type --device cpu.") from error
    return device


def _print(found: Sequence[Score]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "metric", "score", "standard error", "rows", box=None)
    for score in found:
        table.add_row(
            score.task, score.metric, f"{score.value:.4f}", "-" if score.stderr is None else f"{score.stderr:.4f}", f"{score.rows:,}"
        )
    Console().print(table)


def add_to_log(run: Path, found: Sequence[Score], place: int) -> None:
    """Add scores to the TensorBoard log of a run, as `evaluate/TASK/METRIC`.

    Args:
        run: its folder.
        found: the scores.
        place: rollouts (or steps) that the policy had learnt from.
    """
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(run), filename_suffix=".evaluate") as log:
        for score in found:
            log.add_scalar(f"evaluate/{score.task}/{score.metric}", score.value, place)
