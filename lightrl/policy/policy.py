"""The policy module: any Hugging Face causal LM with its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lightrl.ops.head_product import head_format
from lightrl.ops.logprobs import AtRows, Compute, at_rows, head_logits
from lightrl.ops.pretrained import without_dropout
from lightrl.ops.shift import Selected, on_host
from lightrl.parts.base import TrunkOutput
from lightrl.policy.head import fits_scoring_head
from lightrl.policy.packed_trunk import NOTHING, longest_packed, trunk_states
from lightrl.policy.trunk_numbers import at_predicted, laid_out, listening
from lightrl.policy.weight_access import WeightAccess, unsharded_state
from lightrl.policy.written_model import write_model
from lightrl.rows import onto
from lightrl.strategies.disk import onto_disk
from lightrl.text.control_tokens import decoded, mark_ids
from lightrl.text.encoding import EncodedCompletion, closing_id, encode_prompt, encode_sampled
from lightrl.text.tokenizer import Tokenizer
from lightrl.types import PolicyOutput, Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Asked = Mapping[str, Compute | AtRows | TrunkOutput]
"""Numbers of each token beside its log-prob, by name."""
NO_OUTPUTS: Asked = MappingProxyType({})
"""Nothing beside the log-probs."""


class Policy(nn.Module):
    """A causal LM and its tokenizer, with log-probs computed for sampled tokens only."""

    adapted: bool = False
    """Adapters learn in its layers, and their base does not."""
    longest_packed: int = 0
    """The longest row with which rows stand one behind the other without padding, and what they begin with alike once; 0: they never do."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer) -> None:
        """
        Args:
            model: with a language-modelling head.
            tokenizer: that fits it.

        Raises:
            ValueError: neither the tokenizer nor the model's generation config names an EOS token.
            CannotStayLazyError: what the model does to its logits cannot be found out without its weights.
        """
        super().__init__()
        self.model: Any = without_dropout(model)
        if model.dtype == torch.float64 and self.model._can_set_experts_implementation():
            # one after the other, since the faster ways of transformers take no such numbers
            self.model.set_experts_implementation("eager")
        self.tokenizer = tokenizer
        self.eos_token_ids = _eos_token_ids(model, tokenizer)
        self._marks = mark_ids(tokenizer)
        config = model.config.get_text_config()
        self.hidden_size: int = config.hidden_size
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._scale: float = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1.0)
        self._chunked = True
        self._chunked = fits_scoring_head(self.model, self._difference)
        if self._chunked:
            self.longest_packed = longest_packed(model)
        # found now: FSDP2 cuts gathered weights up again when somebody asks for a state dict
        self._persistent = frozenset(name for name, _ in model.named_buffers()) & model.state_dict().keys()

    @property
    def max_positions(self) -> int | None:
        """Longest row the model takes, in tokens; None if it does not say."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    @property
    def device(self) -> torch.device:
        """Where its forward passes run."""
        head = self.model.get_output_embeddings()
        found: torch.device = next(self.model.parameters() if head is None else head.parameters()).device
        return found

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt: messages through the chat template with the opening of the answer, text as it is.

        Raises:
            ValueError: the prompt has messages and the tokenizer no chat template, or it encodes to nothing.
        """
        return encode_prompt(self.tokenizer, prompt, self.eos_token_ids).ids

    def encode_completion(self, prompt: Prompt, completion: str) -> EncodedCompletion:
        """Prompt, completion and EOS, as the policy would have sampled them; of any length.

        Raises:
            ValueError: the prompt cannot be encoded, see `encode`.
        """
        return encode_sampled(self.tokenizer, prompt, completion, self.eos_token_id, self.eos_token_ids)

    @property
    def eos_token_id(self) -> int:
        """The EOS that ends a given completion: the tokenizer's, or the least of the model's."""
        return closing_id(self.tokenizer, self.eos_token_ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out, but for the marks of thoughts."""
        return decoded(self.tokenizer, ids, self._marks)

    def forward(
        self,
        input_ids: Tensor,
        mask: Tensor,
        temperature: float = 1.0,
        outputs: Asked = NO_OUTPUTS,
        critic: nn.Module | None = None,
        steering: Mapping[str, Tensor] = NOTHING,
    ) -> PolicyOutput:
        """Log-probs of the selected tokens, and further numbers of their logits, of the trunk and values if they are asked for.

        Args:
            input_ids: `[n, L]`, rows from position 0, padded on the right with any id: a causal model never reads there. On the CPU,
                or they are copied there, for which the device is waited for.
            mask: `[n, L]` bool, tokens whose log-prob is wanted; not the first of a row. On the CPU, or it is copied there.
            temperature: divides the logits; > 0.
            outputs: further numbers of each token, by name, from its logits divided by the temperature, or from inside the trunk.
            critic: also give its values; called with the ids and the last hidden states.
            steering: `[n, L, ...]` of each token, by the name under which the layers are given those of the tokens that they predict.
        """
        input_ids, mask = on_host(input_ids, mask)
        selected = Selected.of(mask, self.device)
        inside = {name: asked for name, asked in outputs.items() if isinstance(asked, TrunkOutput)}
        of_logits = {name: asked for name, asked in outputs.items() if not isinstance(asked, TrunkOutput)}
        trunk, lengths = self.model.base_model, selected.lengths()
        if not self._chunked:
            places = torch.arange(input_ids.numel()).view(input_ids.shape)
            with listening(trunk, inside) as heard:
                steered = laid_out(steering, places, lengths, places.numel())
                found = self._from_full_logits(input_ids, selected, temperature, of_logits, critic, steered)
            found.outputs |= {name: at_predicted(numbers(), places, lengths) for name, numbers in heard.items()}
            return found
        with listening(trunk, inside) as heard:
            states = trunk_states(trunk, input_ids, self.device, lengths, self.longest_packed, steering)
        head = self.model.get_output_embeddings()
        targets = selected.tokens(input_ids)
        scoring = {"temperature": temperature, "softcap": self._softcap, "scale": self._scale}
        chosen, *further = head(states.predictors(selected), targets, outputs=tuple(of_logits.values()), **scoring)
        numbers = {name: selected.at_tokens(values) for name, values in zip(of_logits, further, strict=True)}
        return PolicyOutput(
            logprobs=selected.at_tokens(chosen),
            outputs=numbers | {name: at_predicted(said(), states.places, lengths) for name, said in heard.items()},
            values=None if critic is None else self._values(critic, input_ids, states.rows, selected),
        )

    @torch.no_grad()
    def logits(self, input_ids: Tensor, mask: Tensor, temperature: float = 1.0) -> Callable[[slice], Tensor]:
        """A function that gives `[k, V]` logits of the positions before the selected tokens, for any slice of them in their order.

        It keeps hidden states and the weights of the head, where they are now, and no logits.

        Args:
            input_ids: as in `forward`.
            mask: as in `forward`.
            temperature: as in `forward`.
        """
        input_ids, mask = on_host(input_ids, mask)
        selected = Selected.of(mask, self.device)
        if not self._chunked:
            raw = selected.predictors(self.model(input_ids=onto(input_ids, self.device), use_cache=False).logits)
            whole = raw.to(torch.promote_types(raw.dtype, torch.float32)) / temperature
            return lambda rows: whole[rows]
        states = trunk_states(self.model.base_model, input_ids, self.device, selected.lengths(), self.longest_packed)
        hidden, head = states.predictors(selected), self.model.get_output_embeddings()
        # in its format once, for all slices of the forward and the backward pass
        weight = head.weight.detach().to(head_format(head.weight))
        bias = None if head.bias is None else head.bias.detach()
        return lambda rows: head_logits(hidden[rows], weight, bias, temperature, self._softcap, self._scale)

    def values(self, input_ids: Tensor, mask: Tensor, critic: nn.Module) -> Tensor:
        """`[n, L]` values of the selected tokens for a critic that learns alone: the policy itself has no part in the gradient."""
        input_ids, mask = on_host(input_ids, mask)
        selected = Selected.of(mask, self.device)

        @torch.no_grad()
        def hidden() -> Tensor:
            if self._chunked:
                return trunk_states(self.model.base_model, input_ids, self.device, selected.lengths(), self.longest_packed).rows()
            whole = self.model(input_ids=onto(input_ids, self.device), use_cache=False, output_hidden_states=True)
            last: Tensor = whole.hidden_states[-1]
            return last

        return self._values(critic, input_ids, hidden, selected)

    def save(self, folder: str | Path) -> None:
        """Write a Hugging Face folder (safetensors, config, tokenizer with chat template) that `PretrainedPolicy` takes."""
        with onto_disk(Path(folder)):
            write_model(self.model, self.tokenizer, folder, unsharded_state(self.model))

    def merged(self) -> Policy:
        """The policy as one causal LM, adapters (if it had any) added to its weights."""
        return self

    def hugging_face_tensors(self, access: WeightAccess) -> Iterator[tuple[str, Tensor]]:
        """Parameters and persistent buffers by the names that transformers gives them; what is tied comes once.

        Adapters are added to the weights that they adapt.

        Args:
            access: gathers them one by one.
        """
        yield from ((name, access.whole(tensor)) for name, tensor in self.own_tensors())

    def own_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and persistent buffers by their names in the model, adapters apart; what is tied comes once."""
        yield from self.model.named_parameters()
        yield from ((name, buffer) for name, buffer in self.model.named_buffers() if name in self._persistent)

    def _from_full_logits(
        self,
        input_ids: Tensor,
        selected: Selected,
        temperature: float,
        outputs: Mapping[str, Compute | AtRows],
        critic: nn.Module | None,
        steered: Mapping[str, Tensor] = NOTHING,
    ) -> PolicyOutput:
        ids = onto(input_ids, self.device)
        out = self.model(input_ids=ids, use_cache=False, output_hidden_states=critic is not None, **steered)
        logits = selected.predictors(out.logits)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
        targets = selected.tokens(input_ids)
        chosen = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        return PolicyOutput(
            logprobs=selected.at_tokens(chosen),
            outputs={name: selected.at_tokens(at_rows(compute, slice(None))(logits, targets)) for name, compute in outputs.items()},
            values=None if critic is None else self._values(critic, input_ids, lambda: out.hidden_states[-1], selected),
        )

    def _values(self, critic: nn.Module, input_ids: Tensor, hidden: Callable[[], Tensor], selected: Selected) -> Tensor:
        """`[n, L]` values of the selected tokens; `hidden` gives the policy's `[n, L, H]` last hidden states."""

        def of_trunk(trunk: nn.Module) -> Tensor:
            return trunk_states(trunk, input_ids, self.device, selected.lengths(), getattr(critic, "longest_packed", 0)).rows()

        read = hidden() if getattr(critic, "reads_hidden", True) else of_trunk
        return selected.at_tokens(selected.predictors(critic(onto(input_ids, self.device), read)[..., None])[:, 0])

    def _difference(self, ids: Tensor, mask: Tensor) -> float:
        """The largest difference between log-probs of the scoring head and those of the model's own logits."""
        theirs = self._from_full_logits(ids, Selected.of(mask, self.device), 1.0, {}, None).logprobs
        return float((self(ids, mask).logprobs - theirs).abs().max())


def _eos_token_ids(model: PreTrainedModel, tokenizer: Tokenizer) -> frozenset[int]:
    generation = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    several = generation if isinstance(generation, (list, tuple)) else [generation]
    ids = frozenset(int(i) for i in (*several, tokenizer.eos_token_id) if i is not None)
    if not ids:
        raise ValueError(
            "neither the tokenizer nor the generation config has an EOS token, so no completion could ever end: "
            "set eos_token in tokenizer_config.json or eos_token_id in generation_config.json"
        )
    return ids
