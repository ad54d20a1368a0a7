"""Checkpoints: the one that `--ckpt_path` names (`last` is the newest of all runs with this config's name), and the policy in one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import Resolved, check_complete, resolve
from lightrl.config.read.refusals import ConfigError
from lightrl.config.read.settings import Request, read_words
from lightrl.policy.policy import Policy
from lightrl.ranks import local_rank
from lightrl.registry.classes import closest
from lightrl.strategies.atomic import tidy


def with_checkpoint(request: Request, resolved: Resolved) -> Resolved:
    """The config with `ckpt_path` as the path of a checkpoint that is whole; a ConfigError if there is none, or it is damaged."""
    wanted = request.last("ckpt_path")
    if request.last("weights_only") in (False, "false", "False"):
        raise ConfigError("weights_only", "false would let the checkpoint execute what is in it.", "Leave it out.")
    if wanted is None or wanted in ("best", "hpc", "registry") or "://" in str(wanted):
        return resolved
    path = newest_of(request, resolved) if wanted == "last" else _existing(str(wanted))
    # the other processes of a machine are started by the first one
    if local_rank() == 0:
        _check_whole(path)
    return dataclasses.replace(resolved, trainer_words=[*resolved.trainer_words, f"--ckpt_path={path}"]) if wanted == "last" else resolved


def tidy_runs(request: Request, resolved: Resolved) -> None:
    """Remove what killed runs of this config's name left half written, or name it; once for all processes of a run."""
    if local_rank() == 0:
        tidy(_run_folder(request, resolved.name), below=True)


def newest_of(request: Request, resolved: Resolved) -> Path:
    """The checkpoint that was written last, of all runs with this config's name; without any, those of its own algorithm are named."""
    folder, of_config = _run_folder(request, resolved.name), _run_folder(request, request.name)
    if of_config != folder and not _below(folder) and (others := _below(of_config)):
        problem = f"there is no checkpoint below {str(folder)!r}, so there is no last one of this algorithm."
        raise ConfigError("ckpt_path", problem, f"To go on from the config's own algorithm: --ckpt_path {others[-1]}")
    return newest(folder)


def newest(folder: Path) -> Path:
    """The checkpoint below a folder that was written last."""
    tidy(folder, below=True)
    if not (found := _below(folder)):
        problem = f"there is no checkpoint below {str(folder)!r}, so there is no last one."
        raise ConfigError("ckpt_path", problem, "A run starts anew without --ckpt_path.")
    return found[-1]


def _below(folder: Path) -> list[Path]:
    return sorted((p for p in folder.rglob("*.ckpt") if p.is_file() or p.is_dir()), key=lambda p: (p.stat().st_mtime, p.name))


def _existing(wanted: str) -> Path:
    path = Path(wanted).expanduser()
    tidy(path.parent)
    if not path.exists():
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        problem = f"there is no checkpoint {wanted!r}.{closest(path.name, names)}"
        raise ConfigError("ckpt_path", problem, "Type for example: --ckpt_path last")
    return path


def _check_whole(path: Path) -> None:
    from lightrl.strategies.checkpoint_files import CheckpointError, check
    from lightrl.strategies.deepspeed import DeepSpeedNeedsError, refuse_without_deepspeed

    try:
        check(path)
        if path.is_dir():
            refuse_without_deepspeed(f"ckpt_path: {str(path)!r}, a folder of DeepSpeed's,")
    except (CheckpointError, DeepSpeedNeedsError) as error:
        raise ConfigError("", str(error)) from error


def _run_folder(request: Request, name: str) -> Path:
    said = {n: request.last("trainer", "logger", n) or request.last("trainer", "logger", "init_args", n) for n in ("save_dir", "name")}
    return Path(str(said["save_dir"] or request.folder)) / str(said["name"] or name)


def config_above(path: Path) -> str | None:
    """The last config that was written for the run of a checkpoint: a run that went on with other settings has several."""
    for folder in (path.parent, path.parent.parent):
        if found := sorted(folder.glob("config*.yaml"), key=lambda file: (len(file.name), file.name)):
            return str(found[-1])
    return None


def checkpoint_of(resolved: Resolved) -> Path | None:
    """The checkpoint that `--ckpt_path` names, once `with_checkpoint` has seen to it; None if there is none."""
    words = [word.partition("=")[2] for word in resolved.trainer_words if word.startswith("--ckpt_path=")]
    return Path(words[-1]) if words else None


def checkpoint_and_config(wanted: str, config: str | None, rest: list[str]) -> tuple[Path, Resolved]:
    """A checkpoint by its path or as `last` of a config's runs, and the config of its run, with further words on the command line."""
    if wanted == "last" and config is None:
        raise ConfigError("--ckpt_path", "last of which runs?", "Type for example: --config grpo --ckpt_path last")
    if wanted == "last":
        # the config finds the run; what the run was given beside it stands in its own config
        asked = read_words(["--config", str(config), *rest])
        path = newest_of(asked, resolve("predict", asked, complete=False))
        config, wanted = config_above(path) or config, str(path)
    config = config or config_above(Path(wanted).expanduser())
    request = read_words([*([] if config is None else ["--config", config]), *rest, "--ckpt_path", wanted])
    # says what is wrong with a path, before it says that a config is missing
    found = with_checkpoint(request, resolve("predict", request, complete=False))
    if config is None:
        hint = "Give the run's: --config FILE. For a script's run, any config with its policy: --config sft_sort --model.policy.path FOLDER"
        raise ConfigError("--config", f"there is no config.yaml beside {wanted!r} or above it.", hint)
    return checkpoint_of(found) or Path(wanted), found


def trained_policy(resolved: Resolved, weights: dict[str, Any], path: Path) -> Policy:
    """The policy that the config describes, with the checkpoint's weights; a ConfigError if the config names no policy, or another one."""
    if "policy" not in resolved.model.arguments:
        raise ConfigError("model.policy", "not given, so nothing says what the weights belong to.", "Give the run's config: --config FILE")
    choice = resolved.model.value("policy")
    check_complete({"model.policy": choice})
    mine = {name.removeprefix("policy."): weight for name, weight in weights.items() if name.startswith("policy.")}
    source = Builder().build(choice, "model.policy")
    try:
        policy: Policy = resolved.model.cls.network(source.build())
        policy.load_state_dict(mine)
    except (ValueError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        problem = f"the policy in {str(path)!r} is not the one that the config describes: {' '.join(lines[:2])[:400]}"
        raise ConfigError("", problem, "Give the run's config.") from error
    return policy
