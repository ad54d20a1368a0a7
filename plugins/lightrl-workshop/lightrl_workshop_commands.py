"""The commands for those who write plugins."""

from lightrl import Command, FunctionCommand, hookimpl


class PluginsNew(FunctionCommand):
    """Write a package with a working part."""

    carried_out_by = "lightrl_workshop.verbs.new:new"
    usage = (("my-idea --kind advantage", "write a package with a working part, for you to change"),)


class PluginsCheck(FunctionCommand):
    """Run the contracts and configs of plugins."""

    carried_out_by = "lightrl_workshop.verbs.check:check"
    usage = (("NAME", "run a plugin's contracts and configs in a fresh process; a file.py is tested as a package is"),)


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [PluginsNew, PluginsCheck]
