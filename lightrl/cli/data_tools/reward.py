"""`lightrl reward`: what can be done with the rewards of a config without training."""

from __future__ import annotations

import sys

from lightrl.config.errors import ConfigError
from lightrl.registry.closest import closest

VERBS = ("test", "pairs")
"""The words that can follow `lightrl reward`."""

TEXT = """\
lightrl reward works with the rewards of a config; nothing is trained and no policy is loaded.

  lightrl reward test --config dapo.yaml --data completions.jsonl                    score completions, and show what looks wrong
  lightrl reward test --config dapo.yaml --data completions.jsonl --expect is_right  compare the scores with labels
  lightrl reward pairs --config judge.yaml --data completions.jsonl --out pairs.jsonl  have a judge say which of two completions is better

See: lightrl reward test --help, lightrl reward pairs --help
"""


def reward(words: list[str]) -> int:
    """Carry out `lightrl reward ...`.

    Raises:
        ConfigError: there is no such verb, or what it was asked for cannot be carried out.
    """
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--help", "-h", "help"):
        sys.stdout.write(TEXT)
        return 0
    if verb not in VERBS:
        raise ConfigError(
            f"lightrl reward {verb}", f"there is no verb {verb!r}.{closest(verb, VERBS)} Verbs: {', '.join(VERBS)}.", "See: lightrl reward"
        )
    if verb == "pairs":
        from lightrl.cli.data_tools.reward_pairs import reward_pairs

        return reward_pairs(rest)
    from lightrl.cli.data_tools.reward_test import reward_test

    return reward_test(rest)
