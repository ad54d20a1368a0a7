"""`TensorLoss` in TRL's `GRPOTrainer`: the host of docs/python.md, with the gradient of a run of lightrl."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightrl_dapo import DAPO
from lightrl_grpo import GRPO, DrGRPO
from lightrl_gspo import GSPO
from lightrl_ppo import RLOO
from lightrl_workshop import CodePoints, gradient_of_step, random_rollout
from lightrl_zoo import CISPO, GMPO
from torch import Tensor

from lightrl import GroupSampler, Rollout, TinyPolicy

trl = pytest.importorskip("trl")

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = (Path(__file__).parents[3] / "docs" / "python.md").read_text()
(HOST,) = re.findall(r'```python title="trl_host.py"\n(.*?)```', PAGE, re.DOTALL)
SOURCE = TinyPolicy(hidden=16, layers=1, heads=2, dtype="float64")
ONCE = {"sampler": GroupSampler(4), "epochs": 1, "minibatches": 1, "old_logprobs": "rollout"}
ALGORITHMS = [GRPO, DrGRPO, DAPO, GSPO, RLOO, CISPO, GMPO]


def host_of(rollout: Rollout, exact: bool) -> Any:
    """The class of the page, which is given completions where TRL would generate some; exact log-probs are not those of TRL."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(HOST, "trl_host.py", "exec", dont_inherit=True), names)

    class Given(names["Host"]):  # type: ignore[misc]
        def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
            mask, ids = rollout.response_mask, rollout.input_ids
            starts = [int(row.int().argmax()) for row in mask]
            asked = [row[:start].tolist() for row, start in zip(ids, starts, strict=True)]
            said = [row[chosen].tolist() for row, chosen in zip(ids, mask, strict=True)]
            sampled = [row[chosen].tolist() for row, chosen in zip(rollout.rollout_logprobs, mask, strict=True)]
            return asked, said, None, rollout.completions, sampled, {}, None, None

    class Exact(Given):
        def logprobs(self, model: Any, rows: dict[str, Tensor]) -> Tensor:
            ids, said = torch.cat([rows["prompt_ids"], rows["completion_ids"]], 1), rows["completion_ids"].shape[1]
            there = torch.cat([rows["prompt_mask"], rows["completion_mask"]], 1)
            everything = model(input_ids=ids, attention_mask=there).logits[:, -said - 1 : -1].log_softmax(-1)
            return everything.gather(2, ids[:, -said:, None])[..., 0]

    return Exact if exact else Given


def aligned_rollout() -> Rollout:
    """A rollout without what the two hosts take otherwise.

    TRL keeps the log-probs of an engine in float32, and takes a completion without an end token for one that was cut. It pads prompts on
    the left, where rotary embeddings round other positions to float32, so the prompts here are of one length.
    """
    made = (random_rollout(SOURCE.build(), seed=seed) for seed in itertools.count())
    rollout = next(rollout for rollout in made if len({len(prompt.text or "") for prompt in rollout.prompts}) == 1)
    ids, last = rollout.input_ids.clone(), rollout.lengths - 1
    stopped = torch.tensor([reason == "stop" for reason in rollout.finish_reason])
    ids[stopped, last[stopped]] = min(SOURCE.build().eos_token_ids)
    return replace(rollout, input_ids=ids, rollout_logprobs=rollout.rollout_logprobs.float().double())


@pytest.mark.parametrize(("size", "exact"), [(16, True), (4, True), (1, True), (4, False)])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda cls: cls.__name__)
def test_has_the_gradient_of_a_run_in_the_trainer_of_trl(tmp_path: Path, algorithm: Any, size: int, exact: bool) -> None:
    """TRL's own log-probs are of float32."""
    rollout, policy = aligned_rollout(), SOURCE.build()
    score = CodePoints()

    def scored(prompts: list[str], completions: list[str], **columns: object) -> list[float]:
        return [score.score(p, c) for p, c in zip(rollout.prompts, completions, strict=True)]

    options = trl.GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=size,
        gradient_accumulation_steps=16 // size,
        num_generations=4,
        max_steps=1,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    data = [{"prompt": prompt.text} for prompt in rollout.prompts[::4]]
    import datasets

    host = host_of(rollout, exact)(
        model=policy.model, processing_class=policy.tokenizer, reward_funcs=scored, args=options,
        train_dataset=datasets.Dataset.from_list(data), algorithm=algorithm(**ONCE),
    )  # fmt: skip
    before = flat(policy)
    host.train()
    run = gradient_of_step(algorithm(**ONCE), rollout, SOURCE)
    moved = before - flat(policy)
    assert run.abs().max() > 1e-5
    assert float((moved - run[: len(moved)]).abs().max()) <= (1e-12 if exact else 1e-6)


def flat(policy: Any) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])
