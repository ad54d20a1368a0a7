"""The base of all modules: what Lightning calls, handed to a learner and a collector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Never

from lightning.pytorch import Callback, LightningModule
from torch import nn

from lightrl.data.loaders import PromptBatch
from lightrl.data.prompt_data import PromptData
from lightrl.parts.description import describe_defaults
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import refuse_outside
from lightrl.registry.classes import core
from lightrl.rewards.environment_reward import with_environment
from lightrl.rewards.reward_set import RewardSet
from lightrl.strategies.adapter_choice import register_strategies
from lightrl.strategies.checkpoint_io import guard
from lightrl.text.token_bound import TokenBound
from lightrl.training.evaluating.collector import Collector
from lightrl.training.evaluating.evaluator import Evaluation, evaluate_before_training, predictions
from lightrl.training.evaluating.named_metrics import answered
from lightrl.training.reports.run_ledger import PhaseObserver, RunLedger, log_evaluation, run_state
from lightrl.training.setup.building import ControlTokenWarning, check_room, choose_threads, prompt_tokens
from lightrl.training.setup.given import as_engine, as_environment, as_policy, as_rewards
from lightrl.training.setup.optimizer_checks import check_schedule, fuse, planned_steps
from lightrl.training.setup.precision import check_precision, keep_default_format
from lightrl.training.setup.trainer_options import callbacks_of, refuse_trainer
from lightrl.training.steps.learner import Learner, LossOf, MicroBatchLoss, R, StepSettings
from lightrl.training.steps.run_memory import CloseAfterFailure, formula_precision, run_memory
from lightrl.types import JSON, ScoredRollout
from lightrl.workers.waiting import waiting

register_strategies()


class PolicyModule(LightningModule):
    """A policy in manual optimisation, evaluated by sampling completions and scoring them."""

    product: ClassVar[Literal["policy", "reward model"]] = "policy"
    """The outcome of a run, which `lightrl export` writes."""
    makes_rollouts: ClassVar[bool] = False
    """An epoch of Lightning's is one rollout; False: rows are given."""
    learner_class: ClassVar[type[Learner]] = Learner
    """Makes the learner."""
    collector_class: ClassVar[type[Collector]] = Collector
    """Makes the collector."""
    learner: Learner
    """Policy, optimizer and strategy: forward passes and steps."""
    collector: Collector
    """Engine, environment and rewards: prompts to scored rows."""
    policy: Policy
    """The network that is trained; there once the trainer has called `configure_model`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        describe_defaults(cls)

    def __init__(
        self,
        policy: PolicySource,
        rewards: dict[str, Reward],
        engine: RolloutEngine,
        environment: Environment,
        evaluation: Evaluation,
        settings: StepSettings,
        needs_rewards: bool = True,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            rewards: the value of a completion, by name.
            engine: generates completions.
            environment: answers the policy.
            evaluation: how validation and test draw completions.
            settings: of the optimizer steps.
            needs_rewards: what the policy learns from has them; False: it has a set of rewards that may be empty.
        """
        super().__init__()
        self.automatic_optimization = False
        engine, environment = as_engine(engine), as_environment(environment)
        every = with_environment(as_rewards(rewards), environment)
        scored_by = RewardSet(every, needs_rewards) if every or not needs_rewards else None
        if every:
            evaluation.correct_reward(every)
        self.ledger = RunLedger()
        self.learner = self.learner_class(self, self.ledger, as_policy(policy), settings)
        refuse_outside(type(self), vars(settings))
        self.collector = self.collector_class(self.learner, engine, environment, scored_by, evaluation)
        self.numbers: dict[str, float] = {}

    @classmethod
    def load_from_checkpoint(cls, *arguments: object, **settings: object) -> Never:
        """Nothing: the networks are built with a Trainer, whose strategy cuts them over the ranks.

        Raises:
            TypeError: always; the message says what to use instead.
        """
        raise TypeError(
            f"{cls.__name__} builds its networks with a Trainer, so load_from_checkpoint cannot. Make the module as for the run, and type\n"
            "trainer.fit(module, datamodule=data, ckpt_path=PATH), or trainer.validate, test or predict\n"
            "For the policy alone: lightrl export --config CONFIG --ckpt_path PATH --out FOLDER, where the config names the same policy"
        )

    @abstractmethod
    def steps_per_epoch(self, prompts: int | None) -> int:
        """Training steps in one Lightning epoch, given the number of training prompts (None: endless)."""

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps of one training step, at most."""
        return 1

    @classmethod
    def network(cls, policy: Policy) -> nn.Module:
        """The network that is trained, and stored under the name `policy`, made of the policy as its source has built it."""
        return policy

    def configure_callbacks(self) -> list[Callback]:
        """One that closes the module after a failure, and the default ones, in addition to those of the Trainer.

        Lightning asks before it does anything else, so that refusals come first.
        """
        refuse_trainer(self.trainer, rollouts=self.makes_rollouts, cuts_weights=self.learner.adapter.cuts_weights)
        return [CloseAfterFailure(), *default_callbacks(callbacks_of(self.trainer))]

    def setup(self, stage: str) -> None:
        """Keep float32 as the format of whatever is made without saying which, and find the callbacks that follow phases."""
        keep_default_format(self.trainer.strategy)
        self.ledger.observers = [callback for callback in callbacks_of(self.trainer) if isinstance(callback, PhaseObserver)]

    def configure_model(self) -> None:
        """Build the policy and what belongs to it once, and let the strategy cut them over the ranks."""
        guard(self.trainer.strategy, self)
        # an evaluation has no use for a critic's weights
        self.strict_loading = self.trainer.state.fn == "fit"
        if not hasattr(self, "policy"):
            learner = self.learner
            with waiting("building the policy and measuring the prompts"):
                self.build_models()
            standing = run_memory(self)
            learner.budget.choose(learner.policy.model, formula_precision(self), self.device, learner.adapter, standing.learning)
            learner.adapter.shard(*self.children())

    def build_models(self) -> None:
        """Build the policy, its weights lazy where the strategy cuts them over the ranks, and what belongs to it."""
        source = self.learner.source
        self.attach(source.build_lazy() if self.learner.adapter.cuts_weights else source.build())

    def attach(self, policy: Policy) -> None:
        """Train this policy, its weights read or not, once it, the data and the settings are found to fit each other.

        Raises:
            ValueError: they do not.
        """
        check_precision(str(self.trainer.precision), policy.model.dtype)
        network: Any = self.network(policy)
        self.learner.attach(network)
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and hasattr(data, "measure"):
            spelled = ControlTokenWarning(self.policy)
            data.watch = spelled.see
            self.measure_prompts(data)
            spelled.warn()
            self.collector.check_template(policy, spelled.talks)
        if self.trainer.num_devices == 1 and self.device.type == "cpu" and (said := choose_threads(self.policy)):
            self.print(said)

    def measure_prompts(self, data: PromptData) -> None:
        """Have the data drop or refuse the prompts that leave no room for a completion."""
        policy, new = self.policy, self.collector.engine.sampling.max_new_tokens
        check_room(policy, new)
        limit = None if policy.max_positions is None else policy.max_positions - new
        data.measure(prompt_tokens(policy, self.collector.environment), limit, TokenBound(policy.tokenizer, policy.eos_token_ids))

    def configure_optimizers(self) -> Any:
        """One optimizer over the parameter groups, and its schedule, once both have been tried."""
        optimizer, schedule = self.learner.make_optimizer(), self.learner.settings.lr_scheduler
        if said := fuse(optimizer, self.trainer.strategy.root_device):
            self.print(said)
        return optimizer if schedule is None else {"optimizer": optimizer, "lr_scheduler": schedule(optimizer)}

    def forward(self, loss_of: LossOf[R], micro: R) -> MicroBatchLoss:
        """The loss of a micro-batch: strategies that wrap the module have hooks around this call."""
        return loss_of(micro)

    def on_fit_start(self) -> None:
        """Let engine, environment and rewards start the processes that they need."""
        with waiting("starting engine, environment and rewards"):
            self.collector.start()

    def on_train_start(self) -> None:
        """Evaluate the policy before its first step, once the schedule has been found long enough."""
        check_schedule(self.lr_schedulers(), planned_steps(self.trainer, self.trainer.num_training_batches, self.steps_per_batch))
        if self.collector.evaluation.before_training:
            evaluate_before_training(self.trainer, self.learner.optimizer)

    def teardown(self, stage: str) -> None:
        """End the processes that engine, environment and rewards have started."""
        self.collector.close()

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, ScoredRollout] | None:
        """Evaluate one batch of validation prompts, and give callbacks the scored completions as `samples`."""
        samples = self.collector.evaluate(batch.prompts)
        if self.collector.named_metrics:
            self.collector.named_metrics.add(answered(samples))
        self.collector.samples = samples if batch_idx == 0 else self.collector.samples
        return {"samples": samples}

    def test_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, ScoredRollout] | None:
        """Evaluate one batch of test prompts."""
        return self.validation_step(batch, batch_idx)

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[dict[str, JSON]]:
        """Complete one batch of prompts; one JSON value per completion."""
        return predictions(self.collector.evaluate(batch.prompts))

    def on_validation_epoch_end(self) -> None:
        """Log what the evaluation found, as `val/...`, or `test/...` in a test."""
        log_evaluation(self, self.collector.evaluated())

    def on_test_epoch_end(self) -> None:
        """Log what the test found as `test/...`."""
        self.on_validation_epoch_end()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The state of the run, for those who read the checkpoint without the run."""
        checkpoint["run"] = run_state(self.trainer)
        checkpoint["micro_batch_tokens"] = self.learner.budget.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Cut micro-batches as before."""
        self.learner.budget.load_state_dict(checkpoint.get("micro_batch_tokens"))


class NoDefaultCallbacks(Callback):
    """A Trainer that has this callback gets none of those that a module brings."""


def default_callbacks(given: Sequence[Callback]) -> list[Callback]:
    """One of each of the core's callbacks with `in_every_run = True`, but for those whose class is there already.

    A callback of another package is never added: only naming it changes a run.
    """
    if any(isinstance(callback, NoDefaultCallbacks) for callback in given):
        return []
    found = [cls for _, cls in core().registered("callback") if getattr(cls, "in_every_run", False)]
    return [cls() for cls in found if cls not in {type(callback) for callback in given}]
