"""The resolved config as YAML: what `--print_config` shows and what stands in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, SaveConfigCallback

from lightrl.config.choice import import_path
from lightrl.config.class_lookup import DATA, MODULES


def config_yaml(parser: LightningArgumentParser, config: Any, classes: dict[str, type[Any]]) -> str:
    """The config with every default, in a form that `--config` takes again.

    Args:
        parser: that read the config.
        config: what it read.
        classes: of `model` and `data`, which are named unless they are the defaults.
    """
    tree = yaml.safe_load(parser.dump(config, skip_unset=False))
    tree.pop("config", None)
    defaults = {"model": next(iter(MODULES.values())), "data": next(iter(DATA.values()))}
    for section, cls in classes.items():
        if import_path(cls) != defaults[section]:
            tree[section] = {"class_path": import_path(cls), "init_args": tree[section]}
    epochs = tree.get("trainer", {}).get("max_epochs")
    if "algorithm" in tree["model"] and epochs is not None:
        del tree["trainer"]["max_epochs"]
        tree = {"rollouts": epochs, **tree}
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


class SaveResolvedConfig(SaveConfigCallback):
    """Writes the resolved config into the run's folder when the run starts; what an earlier run wrote there stays."""

    text: str
    """The YAML to write."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        log_dir = trainer.log_dir  # on every rank: it broadcasts
        if self.already_saved or log_dir is None or not trainer.is_global_zero:
            return
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        _free_name(folder, self.config_filename, self.text).write_text(self.text)
        self.already_saved = True


def _free_name(folder: Path, name: str, text: str) -> Path:
    number, path = 1, folder / name
    while path.exists() and path.read_text() != text:
        number += 1
        path = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
    return path
