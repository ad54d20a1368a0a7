"""`lightrl check-model`: find faults of a model that would spoil its training."""

import argparse

from rich.console import Console
from rich.markup import escape

from lightrl import Policy, PretrainedPolicy
from lightrl.config import ConfigError
from lightrl_check_model.checks import checks
from lightrl_check_model.families import TinyFamily

EPILOG = """\
The model runs in float32 on the CPU: each row alone, by transformers, is what everything is compared with. The columns give the largest
difference of log-probs of the model as transformers runs it by itself, and of the model in lightrl.

exact      neither differs beyond rounding
handled    the model alone would be trained wrongly; lightrl runs it in another way, and is exact
refused    a run with this model ends at its start, with the same words
wrong      do not train this model
measured   a number without a limit

Exit status: 0; 1 if something is wrong; 2 if there is no such model.
"""
COLOURS = {"exact": "green", "handled": "yellow", "refused": "magenta", "wrong": "bold red", "not applicable": "dim", "measured": "cyan"}


def check_model(words: list[str]) -> int:
    """Carry out `lightrl check-model`. ConfigError: there is no such model."""
    options = _parser().parse_args(words)
    console = Console()
    try:
        policy = _policy(options)
    except ValueError as error:
        raise ConfigError("lightrl check-model", str(error), "Type lightrl check-model Qwen/Qwen2.5-0.5B-Instruct") from error
    console.print(f"{type(policy.model).__name__:<32}{'transformers':>12}{'lightrl':>12}", highlight=False)
    wrong = False
    for check in checks(policy):
        verdict = f"[{COLOURS[check.verdict]}]{check.verdict:<16}[/]"
        numbers = f"{_shown(check.model):>12}{_shown(check.ours):>12}"
        console.print(f"{check.name:<32}{numbers}  {verdict}{escape(check.says)}", highlight=False, soft_wrap=True)
        wrong |= check.verdict == "wrong"
    return int(wrong)


def _policy(options: argparse.Namespace) -> Policy:
    if options.tiny:
        return TinyFamily(options.tiny).build()
    return PretrainedPolicy(options.path, chat_template=options.chat_template, trust_remote_code=options.trust_remote_code).build()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lightrl check-model", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("path", nargs="?", metavar="PATH", help="a Hugging Face folder, a hub id or a GGUF file")
    which.add_argument("--tiny", metavar="FAMILY", help="a tiny random model of a family of transformers, such as llama")
    parser.add_argument("--chat_template", metavar="FILE", help="in place of the tokenizer's own")
    parser.add_argument("--trust_remote_code", action="store_true", help="execute the Python files of the folder")
    return parser


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.1e}"
