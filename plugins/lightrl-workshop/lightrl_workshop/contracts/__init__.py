"""The contracts, one file for each kind, and `part` for the checks that hold for every class; importing this finds them all."""

import importlib
import pkgutil

for _file in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_file.name)
