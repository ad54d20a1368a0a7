"""`lightrl replay RUN`: learn once more from a recorded rollout, without generating anything, and compare two algorithms on it.

A RUN is the folder of a run with records (the callback RecordRollouts writes them), or the folder of one record. With the weights that
learnt from the rollout, every step is made as in the run, and what the run logged is compared to the bit. Without weights the replay ends
before the first step: rewards, advantages, and the gradient of each token's log-prob.

With --algorithm or a key of the model, both algorithms, the recorded one and the given one, learn from the same rows.
"""

import argparse
import sys

from lightrl.config import ConfigError
from lightrl.ranks import local_rank

EPILOG = """\
  lightrl replay runs/grpo_sort/version_0                                  the last record: are its numbers found again?
  lightrl replay runs/grpo_sort/version_0 --rollout 21 --algorithm GSPO    two algorithms side by side
  lightrl replay runs/grpo_sort/version_0 --model.algorithm.clip.high 0.3  the same algorithm with another number
  lightrl replay runs/grpo_sort/version_0/records/rollout=21               a record that somebody has sent

Keys that a replay takes: --model.algorithm..., --model.rewards..., --model.max_grad_norm, --model.micro_batch_tokens, and
--trainer.accelerator, --trainer.devices, --trainer.strategy, --trainer.precision. One process replays what several have learnt, equal up
to rounding; --trainer.devices with the number of the run's processes repeats it to the bit.

Exit status: 0; 1 if the same algorithm does not find the run's numbers again; 2 if something asked for is wrong.
"""


def replay(words: list[str]) -> int:
    """Carry out `lightrl replay`; a ConfigError if there is no such record, or the algorithm cannot learn from it."""
    options, rest = _parser().parse_known_args(words)
    if options.rows < 0:
        raise ConfigError("--rows", f"expected 0 or more, got {options.rows}.")
    from lightrl_runs.replay.chosen_record import choose
    from lightrl_runs.replay.replayed_config import refuse_processes, replayed, words_of
    from lightrl_runs.replay.tables import print_comparison, print_outcome

    changes = words_of(options.algorithm, rest)
    chosen = choose(options)
    trainer = [word for word in changes if word.startswith("--trainer.")]
    refuse_processes(trainer, len(chosen.records), compared=len(changes) > len(trainer))
    mine = replayed(chosen, trainer)
    other = replayed(chosen, changes, beside=mine) if len(changes) > len(trainer) else None
    if local_rank() != 0:
        return 0
    agrees = print_outcome(chosen, mine)
    if other is not None:
        print_comparison(mine, other, options.rows)
    sys.stdout.flush()
    return 0 if agrees else 1


def _parser() -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="lightrl replay", description=__doc__, epilog=EPILOG, formatter_class=kind, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="the folder of a run, or of one of its records")
    parser.add_argument("--rollout", metavar="N", type=int, help="which record, by the number of its rollout (the last one)")
    parser.add_argument("--algorithm", metavar="NAME", help="learn with this algorithm too, and compare; the same as --model.algorithm")
    parser.add_argument("--ckpt_path", metavar="FILE", help="the weights before the rollout (those that the record names)")
    parser.add_argument("--no_weights", action="store_true", help="end before the first step, even if there are weights")
    parser.add_argument("--config", metavar="FILE", help="config of the run (the one beside the record)")
    parser.add_argument("--rows", metavar="N", type=int, default=3, help="rows to show on which two algorithms disagree most (3)")
    return parser
