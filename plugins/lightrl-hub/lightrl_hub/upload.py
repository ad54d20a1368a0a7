"""Pushes a folder: checks that send nothing, and one commit with exactly the files of a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, ModelInfo, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, HTTPError, RepositoryNotFoundError
from huggingface_hub.utils import HFValidationError, validate_repo_id

from lightrl.config import ConfigError

OF_THE_HUB = ".gitattributes"
"""A file that the hub puts into every repository."""
SAID = {
    401: ("the hub does not know the token", "Make one with write access at {hub}/settings/tokens, and type: hf auth login"),
    403: ("the token may not write there", "Check the owner, and that the token has write access: {hub}/settings/tokens"),
    404: ("the hub does not find it", "Check the owner and the name, and that the token may read it."),
    409: ("the repository was made by another command meanwhile", "Look at it, and add --update to push into it."),
    413: ("the hub finds it too large", "Give a smaller --dtype to lightrl export, or see {hub}/docs/hub/storage-limits"),
    429: ("the hub has had too many requests", "Wait for some minutes."),
}
"""By HTTP status: what it means here, and what to do."""


@dataclass(frozen=True)
class Target:
    """A repository of models on the hub, and what may be done there."""

    name: str
    """`owner/name`."""
    public: bool = False
    """Everybody may read it; the hub is not asked to change a repository that exists."""
    update: bool = False
    """It may have files already: those of the same name are replaced, the others stay."""
    message: str | None = None
    """Of the commit."""


def prepare(target: Target) -> ModelInfo | None:
    """Refuse what the hub or the command does not allow, before anything is written or sent.

    Returns:
        the repository as it is now; None: there is none.

    Raises:
        ConfigError: a bad name, no token, no access, offline mode, or a repository that is not as the command says.
    """
    _refuse_name(target.name)
    if constants.HF_HUB_OFFLINE:
        raise ConfigError("HF_HUB_OFFLINE", "is set, so that nothing can be pushed.", "Unset it for this command.")
    if get_token() is None:
        raise ConfigError("HF_TOKEN", "is not set, and no login of the hub is stored.", "Type: hf auth login")
    api = HfApi()
    with _told(target, "nothing was pushed", "Then type the same again."):
        api.whoami()
        try:
            found = api.model_info(target.name)
        except RepositoryNotFoundError:
            return None
    _refuse_other(target, found)
    return found


def files_of(folder: Path) -> list[Path]:
    """The files of an exported folder, sorted by their names.

    Raises:
        ConfigError: it is no exported folder, or has something that no export writes: links and hidden files.
    """
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ConfigError("lightrl push", f"there is no exported model in {str(folder)!r}.", "See: lightrl export --help")
    paths = sorted(folder.rglob("*"))
    if odd := [path for path in paths if path.is_symlink() or path.name.startswith(".")]:
        problem = f"{str(odd[0])!r} is a link or a hidden file, which no export writes. Nothing was pushed."
        raise ConfigError("lightrl push", problem, f"Move it out of {str(folder)!r}.")
    return [path for path in paths if path.is_file()]


def upload(target: Target, folder: Path, known: ModelInfo | None) -> None:
    """Say what goes where, send the files of a folder as one commit, and say where they are.

    Args:
        target: the repository.
        folder: that `lightrl export` has written; it stays as it is.
        known: what `prepare` found.

    Raises:
        ConfigError: the hub refuses something, or cannot be reached.
    """
    files = files_of(folder)
    _announce(target, folder, files, known)
    api, names = HfApi(), [path.relative_to(folder).as_posix() for path in files]
    words = [*(["--public"] if target.public else []), *(["--update"] if target.update else [])]
    again = f"The folder stays: lightrl push {' '.join([str(folder), target.name, *words])}"
    with _told(target, "the push did not end", again):
        if known is None:
            api.create_repo(target.name, private=not target.public)
        operations = [CommitOperationAdd(name, path) for name, path in zip(names, files, strict=True)]
        message = target.message or f"Upload {folder.name}, exported by lightrl"
        commit = api.create_commit(target.name, operations, commit_message=message)
        there = {file.rfilename for file in api.model_info(target.name).siblings or []}
        missing = sorted(set(names) - there)
    if missing:
        raise ConfigError("lightrl push", f"the hub has left out {', '.join(missing)}.", again)
    sys.stdout.write(f"Pushed: {api.endpoint}/{target.name} ({commit.commit_url})\n")


def _refuse_name(name: str) -> None:
    example = "Type for example: owner/name, of letters, digits, '-', '_' and '.'"
    if name.count("/") != 1:
        raise ConfigError("OWNER/NAME", f"{name!r} is no name of a repository: it has an owner and a name.", example)
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError("OWNER/NAME", str(error), example) from error


def _refuse_other(target: Target, found: ModelInfo) -> None:
    """Refuse a repository that exists, and is not as the command says."""
    files = [file.rfilename for file in found.siblings or [] if file.rfilename != OF_THE_HUB]
    if files and not target.update:
        shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        problem = f"the repository exists and has files: {shown}. Nothing was pushed."
        raise ConfigError(target.name, problem, "Give another name, or add --update: files of the same name are replaced, others stay.")
    if found.private and target.public:
        raise ConfigError("--public", f"{target.name} is private and would stay so.", "Leave it out, or change the repository on the hub.")
    if not found.private and not target.public:
        problem = "the repository is public, and the command does not say so. Nothing was pushed."
        raise ConfigError(target.name, problem, "Add --public, or give another name.")


def _announce(target: Target, folder: Path, files: list[Path], known: ModelInfo | None) -> None:
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
    kind = f"{'public' if target.public else 'private'}, {'new' if known is None else 'exists'}"
    sys.stdout.write(f"To {constants.ENDPOINT}/{target.name} ({kind}): {len(sizes)} files, {sum(sizes.values()):,} bytes\n")
    sys.stdout.writelines(f"  {name}  {size:,}\n" for name, size in sizes.items())
    sys.stdout.flush()


@contextmanager
def _told(target: Target, outcome: str, hint: str) -> Iterator[None]:
    """Within, what goes wrong on the way to the hub is a message."""
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        meaning, do = SAID.get(
            status, ("the hub has a fault of its own", "Try again later.") if status >= 500 else ("the hub refuses it", "")
        )
        words = (error.server_message or "").strip().splitlines()
        problem = f"{meaning} (HTTP {status}{f': {words[0][:200]}' if words else ''}); {outcome}."
        raise ConfigError(target.name, problem, f"{do.format(hub=constants.ENDPOINT)} {hint}".strip()) from error
    except (HTTPError, OSError, RuntimeError) as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(target.name, f"no connection to {constants.ENDPOINT} ({words[0][:200]}); {outcome}.", hint) from error
    except ValueError as error:
        raise ConfigError(target.name, f"{' '.join(str(error).split())[:300]}; {outcome}.", hint) from error
