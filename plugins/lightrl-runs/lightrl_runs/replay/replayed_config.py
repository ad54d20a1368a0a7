"""From the config of a run to the replay of one of its rollouts, with the run's algorithm or another one."""

import copy
import dataclasses
import logging
import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

from lightrl.config import (
    OF_TORCH,
    Builder,
    Choice,
    ConfigError,
    Request,
    Resolved,
    Setting,
    TrainerSection,
    quiet_lightning,
    read_config,
    read_words,
    resolve,
)
from lightrl.training.online.policy_optimization import PolicyOptimization
from lightrl.training.policy_module import NoDefaultCallbacks
from lightrl_runs.replay.chosen_record import Chosen
from lightrl_runs.replay.outcome import Outcome
from lightrl_runs.replay.replaying import RecordedEngine, Replaying
from lightrl_runs.replay.without_weights import first_pass, refuse_lacking

MODEL_KEYS = ("algorithm", "rewards", "max_grad_norm", "micro_batch_tokens")
"""Of the model, what a replay may have otherwise than the run."""
TRAINER_KEYS = ("accelerator", "devices", "strategy", "precision")
"""Of the trainer, what a replay may have otherwise than the run."""
KEPT_TRAINER_KEYS = ("accelerator", "precision", "deterministic", "benchmark", "plugins")
"""Of the trainer, what a replay has as the run had it."""
QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


@dataclasses.dataclass(frozen=True)
class Replayed:
    """The replay of a rollout with one algorithm."""

    outcome: Outcome
    name: str
    """The algorithm, for the head of a column."""
    algorithm: Choice
    processes: int
    fresh: tuple[str, ...]
    """Slots whose parts keep state from rollout to rollout, and began anew."""


def words_of(algorithm: str | None, rest: list[str]) -> list[str]:
    """The settings of a command as words, each `--KEY=VALUE`; a ConfigError if a replay does not take one."""
    words = [] if algorithm is None else [f"--model.algorithm={algorithm}"]
    request = read_words(rest)
    if request.help_for:
        key = ".".join(request.help_for[0][0])
        raise ConfigError(f"--{key}.help", "fit shows what a key takes.", f"Type: lightrl fit --{key}.help")
    for setting in request.settings:
        section, *path = setting.path or ("config",)
        known = {"model": MODEL_KEYS, "trainer": TRAINER_KEYS}.get(section, ())
        if not path or path[0] not in known:
            keys = ", ".join([f"--model.{key}" for key in MODEL_KEYS] + [f"--trainer.{key}" for key in TRAINER_KEYS])
            key = f"--{'.'.join(setting.path)}" if setting.path else "--config"
            raise ConfigError(key, "a replay has everything else from the record and its config.", f"Keys that it takes: {keys}")
        words.append(setting.word)
    return words


def refuse_processes(words: list[str], ranks: int, compared: bool) -> None:
    """Refuse, with a ConfigError, neither one process nor as many as the run had, and several that are to compare two algorithms."""
    devices = [word.partition("=")[2] for word in words if word.startswith("--trainer.devices=")]
    if not devices or devices[-1] == "1":
        return
    if devices[-1] != str(ranks):
        said = f"the record is of {ranks} rank{'s' if ranks > 1 else ''}, which {devices[-1]} processes cannot share."
        raise ConfigError("--trainer.devices", said, f"Type: --trainer.devices {ranks}" if ranks > 1 else "Leave it out.")
    if compared:
        raise ConfigError("--trainer.devices", "two algorithms are compared in one process, with the rows of all ranks.", "Leave it out.")


def replayed(chosen: Chosen, words: list[str], beside: Replayed | None = None) -> Replayed:
    """Learn once more from a record, or raise a ConfigError; `beside`: the replay with the run's own algorithm, if this is another one."""
    quiet_lightning()
    # its lines about the hardware and the seed are no part of the answer
    for name in ("lightning.pytorch", "lightning.fabric.utilities.seed"):
        logging.getLogger(name).setLevel(logging.ERROR)
    resolved = _resolved(chosen, words)
    builder = Builder()
    section = TrainerSection("fit", resolved)
    section.prepare()
    algorithm: Choice = resolved.model.value("algorithm")
    kept = frozenset() if chosen.checkpoint is None else _slots_of_the_run(algorithm, beside)
    with warnings.catch_warnings():
        # of the run's config, which the run has warned of
        if beside is None:
            warnings.simplefilter("ignore")
        module = builder.build(_replaying(resolved.model, chosen), "model")
        module.replay(chosen.records, kept)
        with builder.refusals("model.algorithm"):
            if chosen.checkpoint is None:
                outcome = first_pass(chosen.records, module.algorithm, module.collector.rewards, module.learner.seed)
                processes = 1
            else:
                refuse_lacking(chosen.records, module.algorithm, values=False)
                outcome, processes = _learn(module, section, chosen)
    name = algorithm.cls.__name__
    label = f"{name}, changed" if beside is not None and name == beside.name else name
    states = {slot for slot, part in module.algorithm.parts.items() if slot != "sampler" and part.state_dict()}
    return Replayed(outcome, label, algorithm, processes, tuple(sorted(states - kept)))


def _learn(module: Replaying, section: TrainerSection, chosen: Chosen) -> tuple[Outcome, int]:
    with warnings.catch_warnings():
        trainer = section.build(lambda arguments: [NoDefaultCallbacks()])
        # of the callbacks and the data that only the run had
        warnings.filterwarnings("ignore", module="lightning.*")
        trainer.fit(module, train_dataloaders=DataLoader(TensorDataset(torch.zeros(1))), ckpt_path=str(chosen.checkpoint))
    if module.experience is None:
        raise ConfigError("--ckpt_path", f"{str(chosen.checkpoint)!r} is of the end of a run, which would not learn any more.")
    name, learner = type(module.algorithm).__name__, module.learner
    return Outcome(name, module.experience.to("cpu"), module.numbers, learner.gradients, learner.pulls.values), trainer.world_size


def _resolved(chosen: Chosen, words: list[str]) -> Resolved:
    tree = copy.deepcopy(read_config(str(chosen.config)))
    model = tree.get("model", {})
    arguments = model.get("init_args", model) if isinstance(model, dict) else {}
    # engines and data of another machine need not be here
    arguments.pop("engine", None)
    of_run = tree.get("trainer") or {}
    several = any(word.startswith("--trainer.devices=") for word in words)
    kept = (*KEPT_TRAINER_KEYS, *(("strategy", "num_nodes") if several else ()))
    trainer = {name: of_run[name] for name in kept if name in of_run}
    end = {"max_epochs": chosen.records[0].notes.rollout, "devices": 1, **QUIET}
    settings = {"model": model, "trainer": trainer | end}
    settings |= {name: tree[name] for name in OF_TORCH if name in tree}
    request = Request([Setting((), settings, str(chosen.config)), *read_words(words).settings])
    resolved = resolve("fit", request, complete=False)
    if not issubclass(resolved.model.cls, PolicyOptimization):
        raise ConfigError("--config", f"the module {resolved.model.cls.__name__} learns from no rollouts.", "Give the config of the run.")
    return resolved


def _replaying(model: Choice, chosen: Chosen) -> Choice:
    """The module of the config as one that replays, with what is known of the engine in place of the engine."""
    said = dataclasses.asdict(chosen.records[0].notes.engine)
    del said["name"]
    engine = Choice(RecordedEngine, model.takes["engine"].slot, said)
    cls = type(f"Replaying{model.cls.__name__}", (Replaying, model.cls), {"__doc__": Replaying.__doc__, "__module__": Replaying.__module__})
    return dataclasses.replace(model, cls=cls, arguments={**model.arguments, "engine": engine})


def _slots_of_the_run(algorithm: Choice, beside: Replayed | None) -> frozenset[str]:
    """Slots whose parts are those of the run, with the same arguments."""
    mine = algorithm.as_config()["init_args"]
    runs = mine if beside is None else beside.algorithm.as_config()["init_args"]
    return frozenset(slot for slot in mine if mine[slot] == runs.get(slot))
