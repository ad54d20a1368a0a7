"""The memory of one rank by formula: weights, gradients, optimizer, reference, critic, activations, keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

TrainerPrecision = Literal["64-true", "32-true", "bf16-mixed", "bf16-true"]
COMPUTED: dict[TrainerPrecision, int] = {"64-true": 8, "32-true": 4, "bf16-mixed": 2, "bf16-true": 2}
"""Bytes of a number that the layers compute."""

CUT = {
    "auto": frozenset[str](),
    "ddp": frozenset[str](),
    "deepspeed_stage_1": frozenset({"optimizer"}),
    "deepspeed_stage_2": frozenset({"optimizer", "gradients"}),
    "deepspeed_stage_2_offload": frozenset({"optimizer", "gradients"}),
    "deepspeed_stage_3": frozenset({"optimizer", "gradients", "weights"}),
    "deepspeed_stage_3_offload": frozenset({"optimizer", "gradients", "weights"}),
    "fsdp2": frozenset({"optimizer", "gradients", "weights"}),
}
"""What each strategy cuts over the ranks."""
BUCKET, LIVE = 2e8, 1e9
"""Gradients that DeepSpeed sends at a time, and weights that stage 3 leaves gathered, at Lightning's settings."""
SAVED_HIDDEN: dict[TrainerPrecision, float] = {"64-true": 15, "32-true": 15, "bf16-mixed": 23, "bf16-true": 17}
"""Numbers that autograd keeps of a token of packed rows in one block, in widths of the hidden states. Norms and rotations are computed in
float32, which counts twice in half precision; flex attention keeps 4 to 5 less, since it copies no keys and values."""
SAVED_INTERMEDIATE = 4
"""The same in widths of the MLP."""


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a transformer that its memory depends on."""

    parameters: float
    """All of them."""
    layers: int
    """Blocks."""
    hidden: int
    """Width of the hidden states."""
    intermediate: int
    """Width of the MLP."""
    key_width: int
    """Width of the keys of one layer: key heads times the size of a head; the values have the same."""

    @classmethod
    def of(cls, model: Any) -> ModelSize:
        """The sizes of a model, also of one on the meta device.

        Args:
            model: a causal LM of transformers, such as `PretrainedPolicy("Qwen/Qwen2.5-7B").outline()` gives. Where its config does not
                say how many layers it has or how wide they are, they are those of a block of 12 hidden x hidden weights with an MLP of
                four times the width.
        """
        config = model.config.get_text_config()
        hidden = config.hidden_size
        parameters = sum({p: p.numel() for p in model.parameters()}.values())
        layers = getattr(config, "num_hidden_layers", None) or max(1, round(parameters / (12 * hidden**2)))
        heads = getattr(config, "num_attention_heads", None) or 1
        key_heads = getattr(config, "num_key_value_heads", None) or heads
        head = getattr(config, "head_dim", None) or hidden // heads
        return cls(parameters, layers, hidden, getattr(config, "intermediate_size", None) or 4 * hidden, key_heads * head)

    def kept_of_token(self, precision: TrainerPrecision, gradient_checkpointing: bool) -> float:
        """Bytes that autograd keeps of a token of packed rows from the forward to the backward pass.

        Args:
            precision: in which the layers compute.
            gradient_checkpointing: blocks keep their input alone.
        """
        block = COMPUTED[precision] * (SAVED_HIDDEN[precision] * self.hidden + SAVED_INTERMEDIATE * self.intermediate)
        # between blocks numbers are as exact as weights
        between = 4 if precision == "bf16-mixed" else COMPUTED[precision]
        return between * (self.layers + 2) * self.hidden + block if gradient_checkpointing else self.layers * block


@dataclass(frozen=True)
class RankMemory:
    """Bytes of one rank, by what they hold."""

    weights: float
    """The policy's weights, or this rank's share of them."""
    gathered: float
    """Gathered weights beside the shares, while the engine in this process generates; DeepSpeed gathers them into one more copy.
    A critic's are gathered with them. Where nothing is cut, the rounded copies of `bf16-mixed` that it decodes with."""
    gradients: float
    """Of everything that learns, in float32 but for DeepSpeed's stage 1; `ddp` has them again in buckets, in the format of the weights."""
    optimizer: float
    """AdamW's two moments."""
    master: float
    """The float32 copy of weights of 2 bytes that learn; under DeepSpeed's stage 3 also its place for gradients, which it keeps."""
    buffers: float
    """What DeepSpeed gathers before it sends or frees it, in a backward pass: gradients, and under stage 3 weights."""
    step: float
    """What the optimizer's step needs for itself: DeepSpeed's float32 copy of the gradients."""
    reference: float
    """The copy of the policy that a KL penalty is measured against."""
    critic: float
    """The weights of a critic with a trunk of its own, or this rank's share."""
    activations: float
    """What one micro-batch keeps for its backward pass; under `bf16-mixed` that includes rounded weights, where none are cut."""
    keys_and_values: float
    """Of the rows that are decoded at a time."""

    @property
    def standing(self) -> float:
        """Memory that is in use all the time."""
        return self.weights + self.optimizer + self.master + self.reference + self.critic

    @property
    def generating(self) -> float:
        """While completions are generated: keys and values are there twice for a moment, when rows are copied or dropped."""
        return self.standing + self.gathered + 2 * self.keys_and_values

    @property
    def learning(self) -> float:
        """In the backward pass and the optimizer's step, whichever needs more."""
        return self.standing + self.gradients + self.buffers + max(self.activations, self.step)

    @property
    def peak(self) -> float:
        """The larger one of `generating` and `learning`."""
        return max(self.generating, self.learning)


def rank_memory(
    model: ModelSize,
    strategy: str,
    ranks: int = 1,
    precision: TrainerPrecision = "bf16-mixed",
    learning: float | None = None,
    reference: bool = False,
    critic: bool = False,
    engine_inside: bool = True,
    rows: int = 64,
    positions: int = 2048,
    micro_batch_tokens: int = 8192,
    gradient_checkpointing: bool = False,
) -> RankMemory:
    """The memory of one rank, without what the libraries and the device's allocator take for themselves.

    With P parameters of which T learn, N ranks, w bytes of a weight and c of a number that the layers compute: weights wP, gradients 4T
    (under `ddp` and wT, under DeepSpeed's stage 1 wT alone), optimizer 8T and for weights of 2 bytes 4T more, each divided by N where it
    is cut; reference wP, keys and values 2c x layers x key width x rows x positions, activations c x tokens x layers x (s hidden +
    4 intermediate), or with checkpointing c x tokens x ((layers + 2) x hidden + one layer), where s is 15 in float32, 17 under
    `bf16-true` and 23 under `bf16-mixed`. Autocast (`bf16-mixed` where weights are not cut, without DeepSpeed) keeps 2P more with them,
    and the engine in this process while it decodes.

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3 (weights, gradients, optimizer); Korthikanti et al. 2022,
    arXiv:2205.05198, section 4 (activations; counted here for blocks with a gated MLP and attention that keeps no scores).

    Args:
        model: whose sizes count.
        strategy: a name of `trainer.strategy`.
        ranks: processes that share a step.
        precision: of the trainer. A model that computes in bfloat16 has weights of 2 bytes under `bf16-true`, and under DeepSpeed.
        learning: parameters of the adapters that learn, which are float32; None: all of the policy's.
        reference: a KL penalty keeps a copy. Adapters need none.
        critic: there is a `ValueModel`.
        engine_inside: the engine decodes with the weights of this process; False: it lives elsewhere.
        rows: decoded at a time.
        positions: of a row, prompt and completion.
        micro_batch_tokens: per forward and backward pass.
        gradient_checkpointing: blocks keep their input alone.

    Raises:
        ValueError: the strategy is unknown.
    """
    if strategy not in CUT:
        raise ValueError(f"there is no formula for the strategy {strategy!r}; there is one for {', '.join(CUT)}")
    cut, deepspeed, offload = CUT[strategy], strategy.startswith("deepspeed"), strategy.endswith("offload")
    share = {part: 1 / ranks if part in cut else 1.0 for part in ("weights", "gradients", "optimizer")}
    computed = COMPUTED[precision]
    weight = 4 if precision == "bf16-mixed" and not deepspeed else computed
    adapters = 0.0 if learning is None else learning
    rounding = (learning is None) * model.parameters + critic * model.parameters
    moved = adapters + rounding
    rounded = 2 * model.parameters if weight > computed and "weights" not in cut else 0.0
    whole = computed * (1 + critic) * model.parameters * (1 + (deepspeed and ranks > 1)) if "weights" in cut else rounded
    copied = 0.0 if offload else 4 * share["optimizer"] * (moved if deepspeed else rounding if weight == 2 else 0.0)
    kept_gradients = deepspeed and "weights" in cut
    buckets = weight * rounding + 4 * adapters if strategy == "ddp" else 0.0
    gradients = 0.0 if offload else (weight if strategy == "deepspeed_stage_1" else 4) * moved * share["gradients"] + buckets
    buffers = weight * (min(moved, BUCKET) + (min(model.parameters, LIVE) if "weights" in cut else 0.0)) if deepspeed else 0.0
    return RankMemory(
        weights=weight * model.parameters * share["weights"],
        gathered=whole if engine_inside else 0.0,
        gradients=0.0 if kept_gradients else gradients,
        optimizer=0.0 if offload else 8 * moved * share["optimizer"],
        master=copied + (gradients if kept_gradients else 0.0),
        buffers=buffers,
        step=copied if deepspeed else 0.0,
        reference=weight * model.parameters * reference,
        critic=weight * model.parameters * share["weights"] * critic,
        activations=micro_batch_tokens * model.kept_of_token(precision, gradient_checkpointing)
        + rounded / (model.layers if gradient_checkpointing else 1),
        keys_and_values=2 * computed * model.layers * model.key_width * rows * positions if engine_inside else 0.0,
    )
