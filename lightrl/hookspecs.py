"""The hooks of a plugin: one for each kind of `lightrl.kinds`, each called once when plugins are loaded.

A plugin is a module with functions of these names, decorated with `lightrl.hookimpl`, and one entry point in the group
`lightrl.v1`. Every hook takes no argument and returns a list of classes. A plugin leaves out the hooks that it does not need. The hook of
commands is in a module with an entry point in the group `lightrl.v1.commands`.
"""

from __future__ import annotations

from collections.abc import Callable

import pluggy

from lightrl.kinds import KINDS, Kind

hookspec = pluggy.HookspecMarker("lightrl")
hookimpl = pluggy.HookimplMarker("lightrl")

GROUP = "lightrl.v1"
"""The entry-point group; its number is the version of this page."""
COMMANDS = f"{GROUP}.commands"
"""The entry-point group of modules with the hook `lightrl_commands`. They are imported for every command that is typed, and the modules of
the other group are not, so what such a module imports is light."""


def _hook(kind: Kind) -> Callable[[], list[type]]:
    def hook() -> list[type]:
        return []

    hook.__name__ = hook.__qualname__ = kind.hook
    hook.__doc__ = kind.description
    return hookspec(hook)


globals().update({kind.hook: _hook(kind) for kind in KINDS.values()})
