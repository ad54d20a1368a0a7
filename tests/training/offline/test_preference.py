"""Preference optimisation: the gradient is the formula's, however the rows are cut, and what a run reports is true."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightrl_preference import AOT, BCO, DPO, IPO, KTO, ORPO, AOTUnpaired, Hinge, MixedObjective, SimPO, Unpaired
from lightrl_workshop import quiet_trainer
from torch import Tensor

from lightrl import (
    ChosenLikelihood,
    LabelledObjective,
    Objective,
    PeriodicReference,
    Policy,
    PreferenceOptimization,
    Prompt,
    PromptData,
    PromptSource,
    RowReward,
    TinyPolicy,
    TransformersEngine,
)
from lightrl.config.build.builder import Builder
from lightrl.config.merge.resolve import resolve
from lightrl.config.read.settings import read_words
from lightrl.training.offline.labelled_batch import PlacedRow, partners
from lightrl.training.offline.pair_batch import encode_pairs
from lightrl.training.offline.reference_cache import ReferenceCache
from lightrl.types import JSON

CONFIG = Path(__file__).parents[3] / "configs" / "toys" / "offline" / "dpo_sort.yaml"
RATE = 1e-3
TINY = {"hidden": 16, "layers": 1, "heads": 2, "dtype": "float64"}


class Compared(PromptSource):
    """Prompts with these columns."""

    def __init__(self, rows: list[dict[str, JSON]]) -> None:
        self.rows = rows

    @property
    def size(self) -> int:
        return len(self.rows)

    def prompt(self, index: int) -> Prompt:
        row = dict(self.rows[index])
        return Prompt(id=f"row{index}", text=row.pop("prompt"), columns=row)


PAIRS = Compared(
    [{"prompt": f"{n}{n + 1}=", "chosen": "12345678"[: n % 5 + 1], "rejected": "98765"[: (n * 3) % 4 + 1]} for n in range(8)],
)


class Right(RowReward):
    """1 for the answer itself."""

    runs = "inline"

    def score(self, prompt: Prompt, completion: str, *, chosen: str) -> float:
        return float(completion == chosen)


def module(objective: Objective, **changes: Any) -> PreferenceOptimization:
    settings: dict[str, Any] = {
        "policy": TinyPolicy(**TINY), "batch_size": 8, "optimizer": lambda p: torch.optim.SGD(p, lr=RATE), "max_grad_norm": None,
    }  # fmt: skip
    return PreferenceOptimization(objective=objective, **{**settings, **changes})


def fit(subject: PreferenceOptimization, folder: Path, source: PromptSource = PAIRS, **changes: Any) -> Trainer:
    given = {"shuffle": False, **changes.pop("data", {})}
    checkpoint = changes.pop("ckpt_path", None)
    run = quiet_trainer(num_sanity_val_steps=0, default_root_dir=folder, **{"max_steps": 1, **changes})
    run.fit(subject, datamodule=PromptData(train=source, **given), ckpt_path=checkpoint)
    return run


def moved(subject: PreferenceOptimization) -> Tensor:
    before = TinyPolicy(**TINY).build().state_dict()
    return torch.cat([(before[name] - now).flatten() for name, now in subject.policy.state_dict().items()]) / RATE


OBJECTIVES: list[Callable[[], Objective]] = [
    DPO, IPO, SimPO, ORPO, Hinge, KTO, BCO, AOT, AOTUnpaired, lambda: MixedObjective({"dpo": DPO(), "likelihood": ChosenLikelihood()}),
]  # fmt: skip


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("make", OBJECTIVES, ids=lambda make: type(make()).__name__)
def test_the_gradient_does_not_depend_on_the_micro_batches(make: Callable[[], Objective], tmp_path: Path) -> None:
    objective = make()
    source = Unpaired(PAIRS) if isinstance(objective, LabelledObjective) else PAIRS
    gradients = []
    for budget in (None, 64, 24, 1):
        subject = module(make(), micro_batch_tokens=budget)
        fit(subject, tmp_path, source)
        gradients.append(moved(subject))
    assert gradients[0].abs().max() > 1e-3
    for other in gradients[1:]:
        assert float((gradients[0] - other).abs().max()) <= 1e-10


def test_the_gradient_is_that_of_dpo_as_it_is_written(tmp_path: Path) -> None:
    subject = module(DPO(beta=0.3), micro_batch_tokens=24)
    run = fit(subject, tmp_path, max_steps=2)
    policy, frozen = TinyPolicy(**TINY).build(), TinyPolicy(**TINY).build()
    pairs = encode_pairs(policy, [PAIRS.prompt(i) for i in range(8)])
    for _ in range(2):

        def total(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
            logprobs = model.model(ids).logits.log_softmax(-1)[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
            return (logprobs * mask[:, 1:]).sum(1)

        better = total(policy, pairs.chosen_ids, pairs.chosen_mask) - total(frozen, pairs.chosen_ids, pairs.chosen_mask).detach()
        worse = total(policy, pairs.rejected_ids, pairs.rejected_mask) - total(frozen, pairs.rejected_ids, pairs.rejected_mask).detach()
        loss = -torch.nn.functional.logsigmoid(0.3 * (better - worse)).mean()
        policy.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in policy.parameters():
                assert parameter.grad is not None
                parameter -= RATE * parameter.grad
    for ours, theirs in zip(subject.policy.parameters(), policy.parameters(), strict=True):
        assert (ours - theirs).abs().max().item() <= 1e-10
    assert run.callback_metrics["loss"].item() == pytest.approx(loss.item(), abs=1e-6)


def test_it_begins_at_ln_2_and_the_margin_grows(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []

    class Watch(Callback):
        def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
            seen.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    subject = module(DPO(beta=0.5), optimizer=lambda p: torch.optim.Adam(p, lr=1e-3))
    fit(subject, tmp_path, max_steps=12, callbacks=[Watch()])
    assert seen[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert seen[0]["rewards/margins"] == pytest.approx(0, abs=1e-6)
    assert seen[0]["rewards/accuracies"] == pytest.approx(0.5, abs=0.5)
    assert seen[-1]["loss"] < 0.6
    assert seen[-1]["rewards/accuracies"] == 1
    assert seen[-1]["rewards/margins"] == pytest.approx(seen[-1]["rewards/chosen"] - seen[-1]["rewards/rejected"], abs=1e-6)
    assert seen[-1]["tokens"] == sum(len(row["chosen"]) + len(row["rejected"]) + 2 for row in PAIRS.rows)


def test_validation_compares_held_out_pairs_and_scores_samples(tmp_path: Path) -> None:
    subject = module(
        SimPO(), optimizer=lambda p: torch.optim.Adam(p, lr=5e-3), rewards={"right": Right()}, engine=TransformersEngine(max_new_tokens=4)
    )
    held = Compared([{"prompt": f"{n}=", "chosen": str(n), "rejected": "00"} for n in range(3)])
    run = fit(subject, tmp_path, max_steps=10, data={"validation": held})
    numbers = run.callback_metrics
    assert {"val/loss", "val/rewards/accuracies", "val/rewards/margins", "val/logps/chosen", "val/rewards/right/mean"} <= set(numbers)
    pairs = encode_pairs(subject.policy, [held.prompt(i) for i in range(3)])
    means = [
        (subject.policy(ids, mask).logprobs * mask).sum(1) / mask.sum(1)
        for ids, mask in ((pairs.chosen_ids, pairs.chosen_mask), (pairs.rejected_ids, pairs.rejected_mask))
    ]
    assert numbers["val/rewards/margins"].item() == pytest.approx(2.5 * float((means[0] - means[1]).mean().detach()), abs=1e-5)


def test_a_prompt_that_is_a_whole_conversation_is_answered_from_where_the_two_part(tmp_path: Path) -> None:
    def turns(*said: str) -> list[JSON]:
        return [{"role": role, "content": text} for role, text in zip(("user", "assistant"), said, strict=False)]

    class Conversations(PromptSource):
        size = 2

        def __init__(self, asked: str) -> None:
            self.asked = asked

        def prompt(self, index: int) -> Prompt:
            chosen, rejected = turns(f"{index}{self.asked}", str(index)), turns(f"{index}{self.asked}", "7")
            return Prompt(id=str(index), messages=tuple(chosen), columns={"chosen": chosen, "rejected": rejected})

    class Asked(RowReward):
        runs = "inline"

        def score(self, prompt: Prompt, completion: str) -> float:
            return float(prompt.messages is not None and [turn["role"] for turn in prompt.messages] == ["user"])

    class Chatting(TinyPolicy):
        def build(self) -> Policy:
            policy = super().build()
            policy.tokenizer.chat_template = "{% for turn in messages %}{{ turn.content }}{% endfor %}"
            return policy

    subject = module(
        DPO(), policy=Chatting(**TINY), batch_size=2, rewards={"asked": Asked()}, engine=TransformersEngine(max_new_tokens=4)
    )  # fmt: skip
    run = fit(subject, tmp_path, Conversations("="), data={"validation": Conversations("+0=")})
    assert run.callback_metrics["val/rewards/asked/mean"] == 1


def test_kto_reports_its_reference_point_and_the_margin_between_labels(tmp_path: Path) -> None:
    subject = module(KTO(beta=0.5), batch_size=16, optimizer=lambda p: torch.optim.Adam(p, lr=1e-3))
    run = fit(subject, tmp_path, Unpaired(PAIRS), max_steps=10)
    numbers = {name: float(value) for name, value in run.callback_metrics.items()}
    assert numbers["rewards/margins"] == pytest.approx(numbers["rewards/chosen"] - numbers["rewards/rejected"], abs=1e-6)
    assert numbers["rewards/margins"] > 0.2
    assert numbers["kl"] >= 0
    assert numbers["loss"] < 0.5


def test_a_partner_has_another_prompt_and_does_not_depend_on_the_ranks() -> None:
    rows = [PlacedRow("c", "two", "y"), PlacedRow("a", "one", "x"), PlacedRow("b", "one", "z")]
    assert partners(rows, rows) == ["x", "y", "y"]
    assert partners(rows[1:], rows[::-1]) == ["y", "y"]
    assert partners(rows[1:], rows[1:]) == [None, None]


def test_reference_log_probs_are_computed_once_and_are_the_same_from_the_disk(tmp_path: Path) -> None:
    def trained(cache: str | None) -> tuple[Tensor, list[float]]:
        shares: list[float] = []

        class Watch(Callback):
            def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
                shares.append(float(trainer.callback_metrics.get("reference/cached", -1)))

        subject = module(DPO(), batch_size=4, cache=cache)
        fit(subject, tmp_path, max_steps=4, callbacks=[Watch()])
        return moved(subject), shares

    folder = str(tmp_path / "cache")
    (plain, without), (first, cold), (second, warm) = trained(None), trained(folder), trained(folder)
    assert without == [-1] * 4
    assert cold == [0, 0, 1, 1]
    assert warm == [1] * 4
    assert torch.equal(first, second)
    assert float((plain - first).abs().max()) <= 1e-8
    files = list(Path(folder).rglob("*.safetensors"))
    assert files
    assert not [f for f in Path(folder).rglob("*") if f.is_file() and f.suffix != ".safetensors"]


def test_another_reference_or_another_tokenizer_has_other_log_probs(tmp_path: Path) -> None:
    def cached(policy: TinyPolicy) -> float:
        subject = module(DPO(), policy=policy, cache=str(tmp_path / "cache"))
        return float(fit(subject, tmp_path).callback_metrics["reference/cached"])

    assert cached(TinyPolicy(**TINY)) == 0
    assert cached(TinyPolicy(**TINY)) == 1
    assert cached(TinyPolicy(**{**TINY, "seed": 1})) == 0
    assert cached(TinyPolicy(**TINY, alphabet="=9876543210")) == 0
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_damaged_cache_file_is_said_and_computed_anew(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    fit(module(DPO(), cache=str(folder)), tmp_path)
    (file,) = folder.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.warns(UserWarning, match=r"reference log-probs .*delete"):
        run = fit(module(DPO(), cache=str(folder)), tmp_path)
    assert run.callback_metrics["reference/cached"] == 0


def test_a_folder_that_cannot_hold_the_cache_is_refused_and_one_that_no_longer_can_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ValueError, match=r"model\.cache: .*null"):
        fit(module(DPO(), cache=str(tmp_path / "file")), tmp_path)
    cache = ReferenceCache(tmp_path / "cache", "reference")
    cache.put([(b"0" * 16, -1.0)])
    cache.folder.rmdir()
    cache.folder.write_text("not a folder any more")
    with pytest.warns(UserWarning, match="1 reference log-probs"):
        cache.write()
    assert cache.get([b"0" * 16, b"1" * 16]) == [-1.0, None]


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    def subject() -> PreferenceOptimization:
        return module(DPO(), batch_size=2, cache=str(tmp_path / "cache"), optimizer=lambda p: torch.optim.Adam(p, lr=1e-2))

    whole, first, second = subject(), subject(), subject()
    data = {"data": {"shuffle": True}}
    fit(whole, tmp_path, max_steps=7, **data)
    run = fit(first, tmp_path, max_steps=3, **data)
    run.save_checkpoint(tmp_path / "mid.ckpt")
    assert torch.load(tmp_path / "mid.ckpt", weights_only=True)["run"]["steps"] == 3
    fit(second, tmp_path, max_steps=7, ckpt_path=str(tmp_path / "mid.ckpt"), **data)
    assert torch.equal(moved(whole), moved(second))


def test_a_moving_reference_moves_and_its_log_probs_are_not_kept(tmp_path: Path) -> None:
    subject = module(DPO(), reference=PeriodicReference(every=2))
    fit(subject, tmp_path, max_steps=2)
    with subject.reference.anchor(subject.policy) as anchor:
        assert all(torch.equal(a, b) for a, b in zip(anchor.parameters(), subject.policy.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"PeriodicReference .*model\.cache"):
        module(DPO(), reference=PeriodicReference(), cache=str(tmp_path))


def test_nothing_is_held_for_an_objective_without_a_reference(tmp_path: Path) -> None:
    subject = module(SimPO(), cache=str(tmp_path / "cache"))
    fit(subject, tmp_path)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(RuntimeError, match="not built"), subject.reference.anchor(subject.policy):
        pass


def test_rows_that_are_too_long_are_dropped_and_counted(tmp_path: Path) -> None:
    long = Compared([*PAIRS.rows[:4], {"prompt": "77=", "chosen": "1" * 30, "rejected": "2"}])
    subject = module(DPO(), batch_size=2, max_length=12)
    with pytest.warns(UserWarning, match=r"1 .* 12 tokens .*34.*'row4'"):
        run = fit(subject, tmp_path, long)
    data: Any = run.datamodule  # type: ignore[attr-defined]
    assert data.sizes()["dropped_too_long"] == 1
    with pytest.raises(ValueError, match=r"'row4'.*data\.max_prompt_tokens"):
        fit(module(DPO(), max_length=12), tmp_path, long, data={"too_long": "raise"})


@pytest.mark.parametrize(
    ("objective", "row", "message"),
    [
        (DPO(), {"chosen": "1", "rejected": "1"}, "'row1'.* hold the same completion '1'"),
        (DPO(), {"chosen": "1"}, "'row1' has no column 'rejected'"),
        (DPO(), {"chosen": "1", "rejected": ""}, "'row1'.*'rejected' holds an empty completion"),
        (KTO(), {"completion": "1", "label": "yes"}, "'row1'.*'label' must hold true or false, got str 'yes'"),
        (KTO(), {"chosen": "1", "rejected": "2"}, "'row1' has no column 'completion'"),
    ],
    ids=["equal", "missing", "empty", "label", "pairs for KTO"],
)  # fmt: skip
def test_a_bad_row_is_named_before_the_first_step(objective: Objective, row: dict[str, JSON], message: str, tmp_path: Path) -> None:
    good = {"completion": "12", "label": True} if isinstance(objective, KTO) else {"chosen": "1", "rejected": "2"}
    with pytest.raises(ValueError, match=f"prompt 1 of Compared: .*{message}"):
        fit(module(objective), tmp_path, Compared([{"prompt": "1=", **good}, {"prompt": "2=", **row}]))


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    class Neither(Objective):
        def reward(self, completions: Any) -> Tensor:
            return completions.logprob

    class Curious(DPO):
        needs = frozenset({"ref_logprobs", "values"})

    with pytest.raises(ValueError, match=r"batch_size .*1"):
        module(DPO(), batch_size=0)
    with pytest.raises(ValueError, match="max_length"):
        module(DPO(), max_length=1)
    with pytest.raises(ValueError, match=r"batch_size .*KTO"):
        module(KTO(), batch_size=1)
    with pytest.raises(ValueError, match=r"Neither .*PairObjective .*LabelledObjective"):
        module(Neither())
    with pytest.raises(ValueError, match=r"Curious .*\['values'\], .*ref_logprobs"):
        module(Curious())
    with pytest.raises(ValueError, match=r"max_prompt_tokens .*model\.max_length"):
        fit(module(DPO()), tmp_path, data={"max_prompt_tokens": 9})


def test_objectives_are_chosen_and_mixed_on_the_command_line() -> None:
    words = ["--config", str(CONFIG), "--model.objective", "MixedObjective", "--model.objective.objectives.dpo", "DPO"]
    words += ["--model.objective.objectives.dpo.beta", "0.3", "--model.objective.objectives.likelihood", "ChosenLikelihood"]
    chosen = resolve("fit", read_words([*words, "--model.objective.weights", "{likelihood: 0.2}"])).model.value("objective")
    built = Builder().build(chosen, "model.objective")
    assert {name: type(part) for name, part in built.objectives.items()} == {"dpo": DPO, "likelihood": ChosenLikelihood}
    assert built.objectives["dpo"].beta == 0.3
    assert built.weights == {"dpo": 1.0, "likelihood": 0.2}


def test_unpaired_takes_pairs_apart_and_keeps_other_columns() -> None:
    source = Unpaired(Compared([{"prompt": "1=", "good": "1", "bad": "2", "n": 3}]), chosen="good", rejected="bad")
    rows = [source.prompt(i) for i in range(2)]
    assert [(p.id, dict(p.columns)) for p in rows] == [
        ("row0:good", {"n": 3, "completion": "1", "label": True}),
        ("row0:bad", {"n": 3, "completion": "2", "label": False}),
    ]
    with pytest.raises(ValueError, match=r"'row0' .*'chosen'.*good, bad, n"):
        Unpaired(source.source).prompt(0)
