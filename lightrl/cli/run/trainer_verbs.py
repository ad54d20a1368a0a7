"""`lightrl fit | validate | test | predict`: resolve the config, then let Lightning run it."""

from __future__ import annotations

from lightrl.config.building import build
from lightrl.config.resolve import print_notes, resolve
from lightrl.config.settings import read_words


def run(verb: str, words: list[str]) -> int:
    """Carry out one verb of Lightning's Trainer; 0 when it is done.

    Raises:
        ConfigError: what was asked for cannot be carried out; nothing has been trained.
    """
    request = read_words(words)
    if request.help_for:
        from lightrl.config.class_help import print_class_help

        return print_class_help(verb, request)
    if request.help:
        resolved = resolve(verb, request, complete=False)
        resolved.other.insert(0, "--help")
    else:
        from lightrl.config.checkpoint_path import with_checkpoint

        resolved = with_checkpoint(request, resolve(verb, request))
        print_notes(resolved.notes)
    try:
        build(verb, resolved, run=True, print_config=request.print_config)
    except SystemExit as end:
        if end.code not in (0, None):
            raise
    return 0
