"""The tokens that samplers need to learn sorting of four to nine digits.

Run `python -m benchmarks.learning.curriculum`.
curriculum_start.yaml trains one policy per seed, which sorts four digits now and then and nine hardly ever. Uniform sampling
(`GroupSampler`) trains it for `--rollouts`. Every other sampler then trains the same policy until its held-out accuracy, over equally many
prompts of each length, first reaches that of uniform's last evaluation, or for as many rollouts. The table has the generated tokens until
then. Runs that are in the output folder already are not made again, so that seeds may be run apart and shown together.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from benchmarks import config_file
from benchmarks.learning.learn import ACCURACY, fit, seeded

UNIFORM = "uniform"
SAMPLERS: dict[str, tuple[str, list[object]]] = {
    UNIFORM: ("edge_curriculum", ["--model.algorithm.sampler", "GroupSampler", "--model.algorithm.sampler.group_size", 4]),
    "edge": ("edge_curriculum", []),
    "replay": ("replay_curriculum", []),
}
"""The config of each sampler, and words after it."""


@dataclass
class Result:
    """The result of one run."""

    sampler: str
    seed: int
    accuracy: list[float]
    """Held-out, at each evaluation."""
    tokens: list[float]
    """Generated until then."""
    zero_variance: float
    """Mean share of groups with zero variance."""

    def tokens_to(self, accuracy: float) -> float | None:
        """Tokens until this accuracy is first reached; None: never."""
        return next((n for n, found in zip(self.tokens, self.accuracy, strict=True) if found >= accuracy), None)


def main() -> None:
    """Make the runs that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), help="to run, uniform being needed")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of weights, data order and sampling")
    parser.add_argument("--rollouts", type=int, default=1600, help="of uniform, and the most of the others")
    parser.add_argument("--out", type=Path, default=Path("runs/curriculum"), help="folder for logs and results")
    arguments = parser.parse_args()
    results = [of for seed in arguments.seeds for of in run_seed(seed, arguments.samplers, arguments.rollouts, arguments.out)]
    print(table(results))


def run_seed(seed: int, samplers: list[str], rollouts: int, out: Path) -> list[Result]:
    """Uniform, and then the others from the same policy until they have reached it."""
    uniform = result(UNIFORM, seed, rollouts, None, out)
    others = [result(name, seed, rollouts, uniform.accuracy[-1], out) for name in samplers if name != UNIFORM]
    return [uniform, *others]


def result(sampler: str, seed: int, rollouts: int, wanted: float | None, out: Path) -> Result:
    """The result of a run, which is made if there is none."""
    folder = out / f"{sampler}-{seed}"
    file = folder / "result.json"
    if not file.exists():
        found = train(sampler, seed, rollouts, wanted, start(seed, out), folder)
        file.write_text(json.dumps(asdict(found)) + "\n")
    return Result(**json.loads(file.read_text()))


def start(seed: int, out: Path) -> Path:
    """Folder of the policy that all samplers begin with."""
    folder = out / f"start-{seed}"
    if not (made := sorted(folder.glob("version_*/policy"))):
        made = [fit(["--config", config_file("curriculum_start"), *seeded(seed), "--model.policy.seed", seed], folder) / "policy"]
    return made[-1]


def train(sampler: str, seed: int, rollouts: int, wanted: float | None, policy: Path, folder: Path) -> Result:
    """Train with one sampler, until an accuracy is reached if one is wanted."""
    folder.mkdir(parents=True, exist_ok=True)
    name, words = SAMPLERS[sampler]
    trainer: dict[str, object] = {"enable_checkpointing": False}
    if wanted is not None:
        stop = {"monitor": ACCURACY, "mode": "max", "stopping_threshold": wanted, "patience": 10**6, "check_on_train_epoch_end": False}
        trainer["callbacks"] = [{"class_path": "lightning.pytorch.callbacks.EarlyStopping", "init_args": stop}]
    (overrides := folder / "overrides.yaml").write_text(yaml.safe_dump({"rollouts": rollouts, "trainer": trainer}))
    given = ["--config", config_file(name), "--config", overrides, *words, *seeded(seed), "--model.seed", seed]
    run = fit([*given, "--model.policy.path", policy], folder)
    accuracy, spent = values(run, ACCURACY), values(run, "progress/tokens")
    rarely = [value for _, value in values(run, "frac_reward_zero_std")]
    # the first evaluation is that of the policy before the first rollout, and has its step
    tokens = [0.0, *(max(n for at, n in spent if at <= step) for step, _ in accuracy[1:])]
    return Result(sampler, seed, [found for _, found in accuracy], tokens, sum(rarely) / len(rarely))


def values(run: Path, tag: str) -> list[tuple[int, float]]:
    """The values of a scalar, each with its step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run), size_guidance={"scalars": 0})
    log.Reload()
    return [(event.step, event.value) for event in log.Scalars(tag)]


HEADER = (
    "sampler",
    "seed",
    "at start",
    "at the end",
    "zero variance",
    "tokens until uniform's last",
    "of uniform's until then",
    "of all its",
)


def table(results: list[Result]) -> str:
    """Markdown."""
    rows = [HEADER, tuple("---" for _ in HEADER)]
    for found in results:
        uniform = next(of for of in results if (of.sampler, of.seed) == (UNIFORM, found.seed))
        tokens, most = found.tokens_to(uniform.accuracy[-1]), uniform.tokens_to(uniform.accuracy[-1])
        reached = tokens is not None and most is not None
        needed = (f"{tokens:,.0f}", f"{tokens / most:.2f}", f"{tokens / uniform.tokens[-1]:.2f}") if reached else ("never", "-", "-")
        first = (found.sampler, str(found.seed), f"{found.accuracy[0]:.3f}", f"{found.accuracy[-1]:.3f}", f"{found.zero_variance:.2f}")
        rows.append((*first, *needed))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
