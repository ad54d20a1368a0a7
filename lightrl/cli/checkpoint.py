"""`--ckpt_path`: the checkpoint to start from; `last` is the newest of all runs with this config's name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lightrl.cli.errors import ConfigError, closest
from lightrl.cli.resolve import Resolved
from lightrl.cli.settings import Request


def with_checkpoint(request: Request, resolved: Resolved) -> Resolved:
    """The config with `ckpt_path` as a path that exists.

    Raises:
        ConfigError: there is none.
    """
    wanted = request.last("ckpt_path")
    if wanted is None or wanted in ("best", "hpc", "registry") or "://" in str(wanted):
        return resolved
    if wanted != "last":
        path = Path(str(wanted)).expanduser()
        if not path.exists():
            names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            raise ConfigError(
                "ckpt_path", f"there is no checkpoint {str(wanted)!r}.{closest(path.name, names)}", "Type for example: --ckpt_path last"
            )
        return resolved
    folder = _run_folder(request, resolved.name)
    return dataclasses.replace(resolved, other=[*resolved.other, f"--ckpt_path={newest(folder)}"])


def newest(folder: Path) -> Path:
    """The checkpoint below a folder that was written last.

    Raises:
        ConfigError: there is none.
    """
    found = [p for p in folder.glob("**/*.ckpt") if p.is_file() or (p / "latest").exists()]
    if not found:
        raise ConfigError(
            "ckpt_path", f"there is no checkpoint below {str(folder)!r}, so there is no last one.", "Leave out --ckpt_path to start anew."
        )
    return max(found, key=lambda p: (p.stat().st_mtime, p.name))


def _run_folder(request: Request, name: str) -> Path:
    said = {n: request.last("trainer", "logger", n) or request.last("trainer", "logger", "init_args", n) for n in ("save_dir", "name")}
    return Path(str(said["save_dir"] or request.folder)) / str(said["name"] or name)
