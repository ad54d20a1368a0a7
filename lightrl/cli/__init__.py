"""The command line. Only what a verb needs is imported, so that light verbs answer at once."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from lightrl.cli.kept_answers import answer, is_listing
from lightrl.cli.slow_imports import naming_slow_imports
from lightrl.config.errors import ConfigError, report
from lightrl.registry.closest import closest
from lightrl.registry.distribution import other_distribution
from lightrl.run_end import RunEndedError
from lightrl.strategies.disk import refusal_of_disk

RUN_VERBS = ("fit", "validate", "test", "predict")
"""Verbs that Lightning's Trainer carries out."""
VERBS = {
    "check": "lightrl.cli.run.check.check",
    "generate": "lightrl.cli.data_tools.generate.generate",
    "sample": "lightrl.cli.data_tools.sample.sample",
    "export": "lightrl.cli.export.export.export",
    "report": "lightrl.cli.run_report.report.report",
    "replay": "lightrl.cli.replay.replay.replay",
    "algorithms": "lightrl.cli.catalogue.algorithms.algorithms",
    "explain": "lightrl.cli.catalogue.explain.explain",
    "diff": "lightrl.cli.catalogue.diff.diff",
    "configs": "lightrl.cli.catalogue.configs.configs",
    "plugins": "lightrl.cli.plugin_tools.plugins.plugins",
    "reward": "lightrl.cli.data_tools.reward.reward",
}
"""The function that carries out each of the other verbs; it is given the words after the verb."""

OF_A_MODEL = ("check", "generate", "sample", "export", "replay")
"""Those of them that need a model; they and `RUN_VERBS` refuse versions of packages that lightrl does not run with."""

ELSEWHERE = {
    "train": "fit --config FILE", "grpo": "fit --config grpo", "dpo": "fit --config dpo_sort", "sft": "fit --config sft_sort",
    "eval": "validate --config FILE", "resume": "fit --config FILE --ckpt_path last",
}  # fmt: skip
"""Verbs of other libraries, and what does the same here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit status.

    0; 1 if a run ends before its time or without an update, the disk refuses something, `reward test` finds a label contradicted, `plugins
    check` something wrong or `sample` nothing to keep; 2 if the request was wrong; 130 after Ctrl-C. Refusals are at most three lines on
    stderr.

    Args:
        argv: the words after `lightrl`; None takes those of the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with naming_slow_imports():
            if argv is None and is_listing(words):
                return answer(words, lambda: _dispatch(words))
            return _dispatch(words)
    except ConfigError as error:
        return report(error)
    except RunEndedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        told = refusal_of_disk(error)
        if told is None:
            raise
        sys.stderr.write(f"{told}\n")
        return 1
    except KeyboardInterrupt:
        # a run that has begun to train treats it otherwise, and ends with the same status
        sys.stderr.write("\nCtrl-C: ended.\n")
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0


def _dispatch(words: list[str]) -> int:
    if (complaint := other_distribution()) is not None:
        raise ConfigError("", complaint)
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--version", "-V", "--help", "-h", "help"):
        from lightrl.cli.overview import overview, version

        return version() if verb in ("--version", "-V") else overview()
    if verb in RUN_VERBS or verb in OF_A_MODEL:
        from lightrl.hookspecs import GROUP
        from lightrl.versions import refused_versions

        if (complaint := refused_versions(GROUP)) is not None:
            raise ConfigError(f"lightrl {verb}", complaint)
    if verb in RUN_VERBS:
        from lightrl.cli.run.trainer_verbs import carry_out

        return carry_out(verb, rest)
    if verb not in VERBS:
        known = [*RUN_VERBS, *VERBS]
        same = next(
            (ELSEWHERE[name] for name in (verb.lower(), *get_close_matches(verb.lower(), ELSEWHERE, 1, 0.75)) if name in ELSEWHERE), None
        )
        hint = closest(verb, known) if same is None else f" Type for example: lightrl {same}."
        problem = f"there is no verb {verb!r}.{hint} Verbs: {', '.join(known)}."
        raise ConfigError(f"lightrl {verb}", problem, "See: lightrl --help")
    module, _, name = VERBS[verb].rpartition(".")
    function: Callable[[list[str]], int] = getattr(importlib.import_module(module), name)
    return function(rest)
