"""Process groups end before the interpreter does."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import atexit
from torch import distributed
# what is registered first is called last
atexit.register(lambda: print("groups at the end:", distributed.is_initialized()))
from lightrl_workshop import SmallDigits, quiet_trainer
from lightrl import DigitSorting, GroupRelative, GroupSampler, PolicyOptimization, PromptData, TinyPolicy, TransformersEngine

module = PolicyOptimization(
    policy=TinyPolicy(hidden=16, layers=1, heads=2),
    algorithm=GroupRelative(sampler=GroupSampler(group_size=2)),
    rewards={"digits": SmallDigits()},
    engine=TransformersEngine(max_new_tokens=4),
    prompts_per_rollout=2,
)
for _ in range(2):
    trainer = quiet_trainer(strategy="ddp", max_epochs=1)
    trainer.fit(module, datamodule=PromptData(train=DigitSorting(examples=8), validation_size=0))
print("groups after the run:", distributed.is_initialized())
"""


def test_groups_of_gloo_do_not_outlive_the_interpreter_whose_tensors_their_threads_have() -> None:
    # left to the end of the interpreter, one of some twenty runs aborts after its work: "terminate called without an active exception"
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    # without OMP_NUM_THREADS the run says how many threads it takes
    said = [line for line in done.stdout.splitlines() if line.startswith("groups")]
    assert said == ["groups after the run: True", "groups at the end: False"]
