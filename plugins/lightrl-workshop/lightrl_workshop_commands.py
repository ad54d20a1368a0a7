"""The commands for those who write plugins."""

import argparse
import subprocess
import sys

from lightrl import Command, FunctionCommand, hookimpl
from lightrl.cli import naming_slow_imports


class PluginsNew(FunctionCommand):
    """Write a package with a working part."""

    carried_out_by = "lightrl_workshop.verbs.new:new"
    usage = (("my-idea --kind advantage", "write a package with a working part, for you to change"),)


class PluginsCheck(Command):
    """Run the contracts and configs of plugins in a process of their own."""

    usage = (("NAME", "run a plugin's contracts and configs in a fresh process; a file.py is tested as a package is"),)

    def run(self, words: list[str]) -> int:
        """Check plugins: 0 if all is well, 1 if something is wrong, 2 if the request is.

        Nothing of `lightrl_workshop` is imported here: the other process does that, below.
        """
        what = "Hooks, names, contract and configs of a plugin, or the classes of a file, checked in a fresh process."
        parser = argparse.ArgumentParser(prog="lightrl plugins check", description=what)
        parser.add_argument("names", nargs="+", metavar="NAME", help="of a plugin or of its distribution, its folder, or a file.py")
        parser.add_argument("--arguments", metavar="YAML", help="for classes with required arguments, as a file or {Class: {name: value}}")
        parser.add_argument("--only", metavar="CLASS", default="", help="check this class alone; contract: run no steps of configs")
        options = parser.parse_args(words)
        command = [sys.executable, "-m", __name__, options.arguments or "{}", options.only, *options.names]
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


@hookimpl
def lightrl_commands() -> list[type[Command]]:
    return [PluginsNew, PluginsCheck]


if __name__ == "__main__":
    with naming_slow_imports():
        from lightrl_workshop.verbs.check import main

        sys.exit(main(*sys.argv[1:]))
