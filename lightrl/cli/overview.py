"""The output of `lightrl` alone: its verbs, with examples."""

from __future__ import annotations

import sys

from lightrl import __version__

TEXT = """\
lightrl trains language models with reinforcement learning; every algorithm is a set of parts that can be exchanged.

  lightrl fit      --config dapo.yaml [--rollouts 300] [--KEY VALUE ...]   train
  lightrl fit      --config dapo.yaml --ckpt_path last                     resume from the newest checkpoint below runs/dapo, in its folder
  lightrl check    --config dapo.yaml [--KEY VALUE ...]                    build everything, print sizes and memory; train nothing
  lightrl check    --config dapo.yaml --no-import                          list the code that a config names; import none of it
  lightrl validate --config dapo.yaml --ckpt_path last                     evaluate on the validation prompts
  lightrl test     --config dapo.yaml --ckpt_path last                     evaluate on the test prompts
  lightrl predict  --config dapo.yaml --ckpt_path last                     write completions of the held-out prompts
  lightrl generate --policy FOLDER --prompt "493027="                      complete prompts of your own
  lightrl sample   --config dapo.yaml --keep best --out best.jsonl         draw and score completions, keep the best, or pairs
  lightrl export   --ckpt_path FILE --out FOLDER                           write a checkpoint's policy as a Hugging Face folder
  lightrl report RUN [RUN ...]                                             curves, samples, alarms and cost of runs in one HTML page
  lightrl replay RUN [--algorithm GSPO]                                    learn again from a recorded rollout; two algorithms side by side
  lightrl reward test --config dapo.yaml --data completions.jsonl          score completions of a file with the config's rewards
  lightrl reward pairs --config judge.yaml --data completions.jsonl        ask a judge which of two completions is better, for DPO
  lightrl algorithms [--compare]                                           a list or a table of all installed algorithms
  lightrl explain DAPO                                                     one algorithm: every part with its formula and source
  lightrl diff GRPO DAPO                                                   every argument in which they differ; also for two config files
  lightrl configs [copy dapo]                                              configs of installed packages; fit --config dapo finds one
  lightrl plugins list [--json]                                            installed plugins, and why one failed to load
  lightrl plugins show | check NAME                                        one in full; test its contracts and configs in a fresh process
  lightrl plugins new my-idea --kind advantage                             write a package with a working part, for you to change

Any key of the config can be set on the command line; the last one counts:
  --model.algorithm DAPO                                                   another algorithm, with its own parts
  --model.algorithm.clip DecoupledClip --model.algorithm.clip.high 0.3     another part, and one of its arguments
  --model.algorithm.kl null                                                an empty slot
  --model.rewards.length my_package.my_function                            one more reward
  --model.optimizer SGD --model.optimizer.lr 0.1
  --print_config                                                           the whole resolved config
  --model.algorithm.clip.help [NAME]                                       the parts a slot can hold, or the arguments of one
"""


def overview() -> int:
    """Print the verbs."""
    sys.stdout.write(TEXT)
    return 0


def version() -> int:
    """Print the version."""
    sys.stdout.write(f"lightrl {__version__}\n")
    return 0
