"""`lightrl export`: the policy or the reward model in a checkpoint as a Hugging Face folder.

The folder has the weights (safetensors), config, generation config, tokenizer with chat template, and a model card with the run's
settings and numbers; transformers, vLLM and `--model.policy.path` take a policy, and the reward `RewardModel` a reward model.
Checkpoints of every strategy are read, on one process and without executing anything in them. Adapters are added to the weights of
their base. A critic and the optimizer stay behind.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lightrl.config.read.refusals import ConfigError
from lightrl.strategies.disk import refuse_closed
from lightrl.workers.waiting import waiting

EPILOG = """\
Any key of the config can be given after it, as for fit: where the base has moved, --model.policy.path FOLDER

  lightrl export --ckpt_path runs/grpo/version_0/checkpoints/rollout=100.ckpt --out my_model --dtype bfloat16
  lightrl export --config grpo --ckpt_path last --out my_model
"""


def export(words: list[str]) -> int:
    """Carry out `lightrl export`; nothing has been written when it refuses something."""
    options, rest = _parser().parse_known_args(words)
    out = _free(options.out)
    if options.push is not None:
        raise ConfigError("--push", "no package that uploads is installed.", "Type: pip install ./plugins/lightrl-hub")
    from lightrl.cli.export.model_card import model_card
    from lightrl.config.build.checkpoints import checkpoint_and_config, trained_policy
    from lightrl.config.build.run import quiet_lightning
    from lightrl.strategies.checkpoint_weights import notes_in, trained_weights

    path, resolved = checkpoint_and_config(options.ckpt_path, options.config, rest)
    quiet_lightning()
    with waiting("reading the checkpoint"):
        weights = trained_weights(path)
        policy = trained_policy(resolved, weights, path)
    if options.adapter_only and resolved.model.cls.product == "reward model":
        raise ConfigError("--adapter_only", "a reward model is its base, its adapters and a head, written as one.", "Leave it out.")
    if options.adapter_only and not hasattr(policy, "base"):
        raise ConfigError("--adapter_only", "the run trained the whole policy, and no adapters.", "Leave it out.")
    policy = policy if options.adapter_only else policy.merged()
    import torch

    from lightrl.callbacks.export_policy import write_policy

    dtype = None if options.dtype is None else getattr(torch, options.dtype)
    with waiting("writing the policy"):
        write_policy(policy, out, dtype, model_card(resolved, notes_in(path), out.name, options.adapter_only))
    others = sum(w.numel() for name, w in weights.items() if not name.startswith("policy."))
    left = f"; left out: {others:,} parameters that are not the policy's (a critic)" if others else ""
    sys.stdout.write(f"{resolved.model.cls.product.capitalize()} written to {out}{left}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="lightrl export", description=__doc__, epilog=EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("--ckpt_path", metavar="PATH", required=True, help="file or DeepSpeed folder; last: the newest of a config's runs")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="where to write; must be empty or not there yet")
    parser.add_argument("--config", metavar="FILE", help="of the run; by default the config.yaml that the run wrote above its checkpoint")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="of the weights; by default that of the run's policy")
    parser.add_argument("--adapter_only", action="store_true", help="write the adapters alone, for PEFT and for SavedAdapters")
    parser.add_argument("--push", metavar="OWNER/NAME", help="upload the folder to the hub, too; by the package lightrl-hub")
    return parser


def _free(text: str) -> Path:
    out = Path(text).expanduser()
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise ConfigError("--out", f"{text!r} is not empty, and nothing is overwritten.", "Give a folder that is not there yet.")
    refuse_closed(out)
    return out
