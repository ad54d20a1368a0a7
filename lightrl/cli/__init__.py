"""The command line. Only what a verb needs is imported, so that light verbs answer at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from lightrl.config.errors import ConfigError, report

RUN_VERBS = ("fit", "validate", "test", "predict")
"""Verbs that Lightning's Trainer carries out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit status.

    0; 1 if `reward test` finds a label contradicted, `plugins check` something wrong or `sample` nothing to keep; 2, with at most
    three lines on stderr, if the request was wrong.

    Args:
        argv: the words after `lightrl`; None takes those of the process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except ConfigError as error:
        return report(error)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0


def _dispatch(words: list[str]) -> int:
    from lightrl.cli.overview import overview, version

    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--version", "-V"):
        return version()
    if verb in ("--help", "-h", "help"):
        return overview()
    verbs: dict[str, Callable[[list[str]], int]] = {
        "check": _check,
        "generate": _generate,
        "sample": _sample,
        "export": _export,
        "algorithms": _algorithms,
        "explain": _explain,
        "diff": _diff,
        "configs": _configs,
        "plugins": _plugins,
        "reward": _reward,
    }
    if verb in RUN_VERBS:
        from lightrl.cli.run.trainer_verbs import run

        return run(verb, rest)
    if verb in verbs:
        return verbs[verb](rest)
    from lightrl.config.errors import closest

    known = [*RUN_VERBS, *verbs]
    raise ConfigError(
        f"lightrl {verb}", f"there is no verb {verb!r}.{closest(verb, known)} Verbs: {', '.join(known)}.", "See: lightrl --help"
    )


def _check(rest: list[str]) -> int:
    from lightrl.cli.run.check import check

    return check(rest)


def _generate(rest: list[str]) -> int:
    from lightrl.cli.data_tools.generate import generate

    return generate(rest)


def _sample(rest: list[str]) -> int:
    from lightrl.cli.data_tools.sample import sample

    return sample(rest)


def _export(rest: list[str]) -> int:
    from lightrl.cli.export.export import export

    return export(rest)


def _configs(rest: list[str]) -> int:
    from lightrl.cli.catalogue.configs import configs

    return configs(rest)


def _plugins(rest: list[str]) -> int:
    from lightrl.cli.plugin_tools.plugins import plugins

    return plugins(rest)


def _algorithms(rest: list[str]) -> int:
    from lightrl.cli.catalogue.algorithms import algorithms

    return algorithms(rest)


def _explain(rest: list[str]) -> int:
    from lightrl.cli.catalogue.explain import explain

    return explain(rest)


def _diff(rest: list[str]) -> int:
    from lightrl.cli.catalogue.diff import diff

    return diff(rest)


def _reward(rest: list[str]) -> int:
    from lightrl.cli.data_tools.reward import reward

    return reward(rest)
