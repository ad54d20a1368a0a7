"""The base of all modules: a policy, its optimizer, and steps made of micro-batches."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, Never

from lightning.pytorch import Callback
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from lightrl.data.prompt_data import PromptData
from lightrl.parts.description import describe_defaults
from lightrl.parts.engine import RolloutEngine
from lightrl.parts.environment import Environment
from lightrl.parts.reward import Reward
from lightrl.policy.policy import Policy
from lightrl.policy.source import PolicySource
from lightrl.ranges import Positive, refuse_outside
from lightrl.rollout.prompt_tokens import prompt_tokens
from lightrl.rows import Sequences
from lightrl.strategies.adapter_choice import register_strategies
from lightrl.strategies.checkpoint_io import guard
from lightrl.text.token_bound import TokenBound
from lightrl.training.close_after_failure import CloseAfterFailure
from lightrl.training.default_callbacks import default_callbacks
from lightrl.training.evaluated_module import EvaluatedModule
from lightrl.training.evaluating.before_training import evaluate_before_training
from lightrl.training.evaluating.held_out import Evaluation
from lightrl.training.reports.logged_numbers import log_numbers
from lightrl.training.reports.phases import PhaseTimer
from lightrl.training.reports.run_state import run_state
from lightrl.training.setup.building import check_room, choose_threads, prompts_of
from lightrl.training.setup.control_token_warning import ControlTokenWarning
from lightrl.training.setup.fused_optimizer import fuse
from lightrl.training.setup.given import as_policy
from lightrl.training.setup.optimizer_trial import tried_schedule
from lightrl.training.setup.precision import check_precision
from lightrl.training.setup.schedule import check_schedule, planned_steps
from lightrl.training.setup.trainer_options import refuse_trainer
from lightrl.training.steps.fitting_passes import FittingPasses
from lightrl.training.steps.micro_batch_cut import cut_rows
from lightrl.training.steps.optimizer_step import LossOf, MicroBatchLoss, R, Step, StepMaker, Veto, never, one_optimizer
from lightrl.training.steps.run_memory import ExplainMemory, formula_precision, run_memory
from lightrl.training.steps.token_budget import MicroBatchTokens, TokenBudget
from lightrl.workers.waiting import waiting

register_strategies()


class PolicyModule(EvaluatedModule):
    """A policy in manual optimisation, evaluated by sampling completions and scoring them."""

    product: ClassVar[Literal["policy", "reward model"]] = "policy"
    """The outcome of a run, which `lightrl export` writes."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        describe_defaults(cls)

    def __init__(
        self,
        policy: PolicySource,
        rewards: dict[str, Reward],
        engine: RolloutEngine,
        environment: Environment,
        micro_batch_tokens: MicroBatchTokens,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        max_grad_norm: Positive | None,
        evaluation: Evaluation,
        needs_rewards: bool = True,
    ) -> None:
        """
        Args:
            policy: which policy is trained.
            rewards: the value of a completion, by name.
            engine: generates completions.
            environment: answers the policy.
            micro_batch_tokens: tokens per forward and backward pass, what rows begin with alike counted once; auto: chosen for model and
                device; None: all at once.
            optimizer: of all trainable parameters.
            lr_scheduler: stepped after every optimizer step; None: a constant rate.
            max_grad_norm: gradients are scaled down to this norm; None: never.
            evaluation: how validation and test draw completions.
            needs_rewards: what the policy learns from has them; False: it has a set of rewards that may be empty.
        """
        super().__init__(rewards, engine, environment, evaluation, needs_rewards)
        self.automatic_optimization = False
        self.policy_source = as_policy(policy)
        self.token_budget, self.max_grad_norm = TokenBudget(micro_batch_tokens), max_grad_norm
        refuse_outside(type(self), {**vars(self), "micro_batch_tokens": micro_batch_tokens})
        self._optimizer, self._lr_scheduler = optimizer, lr_scheduler
        self.timer = PhaseTimer()
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

    @classmethod
    def network(cls, policy: Policy) -> nn.Module:
        """The network that is trained, and stored under the name `policy`, made of the policy as its source has built it."""
        return policy

    def configure_model(self) -> None:
        """Build the policy and what belongs to it once, and let the strategy cut them over the ranks."""
        guard(self.trainer.strategy, self)
        # an evaluation has no use for a critic's weights
        self.strict_loading = self.trainer.state.fn == "fit"
        if not hasattr(self, "policy"):
            with waiting("building the policy and measuring the prompts"):
                self.build_models()
            standing = run_memory(self)
            self.token_budget.choose(self.policy.model, formula_precision(self), self.device, self.adapter, standing.learning)
            self.adapter.shard(*self.children())

    def build_models(self) -> None:
        """Build the policy, and what belongs to it."""
        self.take(self.built_policy())

    def take(self, policy: Policy) -> None:
        """Train this policy, its weights read or not, once it, the data and the settings are found to fit each other.

        Raises:
            ValueError: they do not.
        """
        check_precision(str(self.trainer.precision), policy.model.dtype)
        self.policy = self.network(policy)  # type: ignore[assignment]
        self.prepare_prompts()

    def built_policy(self) -> Policy:
        """The policy as its source builds it, lazy where the strategy cuts it over the ranks."""
        return self.policy_source.build_lazy() if self.adapter.cuts_weights else self.policy_source.build()

    def prepare_prompts(self) -> None:
        """Measure the prompts, if the run has any of ours, and take as many threads as the policy has a use for."""
        data = getattr(self.trainer, "datamodule", None)
        if data is not None and hasattr(data, "measure"):
            spelled = ControlTokenWarning(self.policy)
            data.watch = spelled.see
            self.measure_prompts(data)
            spelled.warn()
        if self.trainer.num_devices == 1 and self.device.type == "cpu" and (said := choose_threads(self.policy)):
            self.print(said)

    @property
    def prompt_data(self) -> PromptData:
        """The prompts of this run; an error that says what to type if there are none."""
        return prompts_of(self.trainer)

    def measure_prompts(self, data: PromptData) -> None:
        """Have the data drop or refuse the prompts that leave no room for a completion."""
        check_room(self.policy, self.engine.sampling.max_new_tokens)
        positions = self.policy.max_positions
        limit = None if positions is None else positions - self.engine.sampling.max_new_tokens
        data.measure(prompt_tokens(self.policy, self.environment), limit, TokenBound(self.policy.tokenizer, self.policy.eos_token_ids))

    def configure_optimizers(self) -> Any:
        """One optimizer over the parameter groups, and its schedule, once both have been tried."""
        self.tried_schedule()
        optimizer = self.adapter.optimizer(self._optimizer, self.parameter_groups())
        if said := fuse(optimizer, self.trainer.strategy.root_device):
            self.print(said)
        return optimizer if self._lr_scheduler is None else {"optimizer": optimizer, "lr_scheduler": self._lr_scheduler(optimizer)}

    def tried_schedule(self) -> Any:
        """The schedule of a trial on parameters of its own; None if there is none.

        Raises:
            ValueError: optimizer or schedule cannot be used as they are configured.
        """
        return tried_schedule(self._optimizer, self._lr_scheduler, self.group_count, self.trainer.strategy.root_device)

    @property
    def group_count(self) -> int:
        """The number of `parameter_groups` that there will be, known before anything is built."""
        return 1

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer."""
        return [{"params": [p for p in self.policy.parameters() if p.requires_grad]}]

    def forward(self, loss_of: LossOf[R], micro: R) -> MicroBatchLoss:
        """The loss of a micro-batch: strategies that wrap the module have hooks around this call."""
        return loss_of(micro)

    def step_on(self, batch: R, loss_of: LossOf[R], veto: Veto = never) -> Step:
        """One optimizer step on a batch, whose gradient does not depend on how it is cut into micro-batches; see `StepMaker.make`."""
        maker = StepMaker(self.adapter, self.made_optimizer, self.lr_schedulers(), self.max_grad_norm, self.ledger, self.fitting)
        return maker.make(batch, loss_of, veto)

    @property
    def fitting(self) -> FittingPasses:
        """Forward passes over rows, in micro-batches that fit the memory."""
        return FittingPasses(self.token_budget, self.cut, self.adapter.restarts)

    def cut(self, sequences: Sequences) -> list[Tensor]:
        """The rows of each micro-batch of this rank, within the budget."""
        return cut_rows(sequences.to("cpu"), self.token_budget.tokens, self.policy.longest_packed)

    @property
    def made_optimizer(self) -> LightningOptimizer:
        """The optimizer of all parameter groups, once the trainer has made it."""
        return one_optimizer(self.optimizers())

    def log_ledger(self) -> dict[str, float]:
        """Log everything that was reported since the last time, reduced over ranks, and give it back."""
        numbers = self.reduced_ledger()
        log_numbers(self.trainer, numbers)
        return numbers

    def reduced_ledger(self) -> dict[str, float]:
        """Everything that was reported since the last time, seconds in each phase included, reduced over ranks."""
        self.timer.report(self.ledger)
        self.numbers = self.ledger.reduce(self.adapter.gather)
        return self.numbers

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Show which phase a long step is in, and log the seconds spent in it since the last log as `perf/{name}_s`."""
        return self.timer.phase(name, self.on_phase)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The state of the run, for those who read the checkpoint without the run."""
        checkpoint["run"] = run_state(self.trainer)
        checkpoint["micro_batch_tokens"] = self.token_budget.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Cut micro-batches as before."""
        self.token_budget.load_state_dict(checkpoint.get("micro_batch_tokens"))

    def configure_callbacks(self) -> list[Callback]:
        """One that calls `teardown` after a failure, one that explains a lack of memory, and the default ones, beside the Trainer's.

        Lightning asks before it does anything else, so that refusals come first.
        """
        refuse_trainer(self.trainer, rollouts=hasattr(self, "algorithm"), cuts_weights=self.adapter.cuts_weights)
        return [CloseAfterFailure(), ExplainMemory(), *default_callbacks(self.trainer.callbacks)]  # type: ignore[attr-defined]

    @property
    def steps_per_batch(self) -> int:
        """Optimizer steps of one training step, at most."""
        return 1

    def on_train_start(self) -> None:
        """Evaluate the policy before its first step, once the schedule has been found long enough."""
        check_schedule(self.lr_schedulers(), planned_steps(self.trainer, self.trainer.num_training_batches, self.steps_per_batch))
        if self.evaluation.before_training:
            evaluate_before_training(self.trainer, self.made_optimizer)
