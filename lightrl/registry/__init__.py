"""The classes and configs that installed packages register: finding, loading and naming them.

The names below are for commands, those of other packages too.
"""

from __future__ import annotations

from lightrl.import_path import lazy_names

_HOMES = {
    "lightrl.registry.classes": ["UnknownName", "record_named", "registry"],
    "lightrl.registry.loader": ["PluginRecord", "path_of", "registered_classes"],
}
__getattr__ = lazy_names(__name__, {name: module for module, names in _HOMES.items() for name in names})
