"""`lightrl plugins show NAME`: each class of a plugin with its formula, its source and its arguments; of a broken plugin the traceback."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightrl.registry.loader import PluginRecord


def show(name: str) -> int:
    """Print one plugin.

    Raises:
        ConfigError: no plugin has this name.
    """
    from rich.console import Console

    from lightrl.cli.plugin_tools.named_plugin import record_named
    from lightrl.config.class_description import print_class

    record = record_named(name)
    console = Console(markup=False, highlight=False)
    console.print("\n".join(_head(record)))
    if record.error:
        sys.stdout.write(f"\n{record.traceback or ''}")
        return 0
    for kind, classes in record.classes.items():
        for cls in classes:
            console.print()
            print_class(console, kind, cls)
    return 0


def _head(record: PluginRecord) -> list[str]:
    lines = [f"{record.name}: {record.distribution} {record.version}, {record.api}", record.location or record.module]
    if record.error:
        return [*lines, f"did not load: {record.error}"]
    if record.configs:
        lines.append(f"configs: {', '.join(path.stem for path in record.configs)}")
    return lines
