"""A reward model learns from comparisons; its gradient does not depend on how a step is cut; bad rows are named."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightrl_workshop import quiet_trainer
from torch.nn.functional import logsigmoid
from transformers import GPT2Config, GPT2LMHeadModel

from lightrl import (
    JsonLines,
    Policy,
    PolicySource,
    Prompt,
    PromptData,
    PromptSource,
    RankingColumns,
    RewardModeling,
    SortedPairs,
    TinyPolicy,
)
from lightrl.policy.reward_network import RewardNetwork
from lightrl.policy.tiny import ALPHABET, character_tokenizer
from lightrl.training.offline.rankings import Rankings, encode_rankings


class Exact(PolicySource):
    """GPT-2 over characters in float64: the norms of Llama round to float32 in between, whatever its weights are."""

    def build(self) -> Policy:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            model = self.outline("cpu").to(torch.float64)
        return Policy(model.train(), character_tokenizer(ALPHABET, 64))

    def outline(self, device: str = "meta") -> GPT2LMHeadModel:
        with torch.device(device):
            shape = {"vocab_size": 24, "n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
            return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=None, eos_token_id=1, pad_token_id=0))


TINY = {"hidden": 16, "layers": 1, "heads": 2}


class Given(PromptSource):
    """These prompts."""

    def __init__(self, *prompts: Prompt) -> None:
        self.prompts = prompts

    @property
    def size(self) -> int:
        return len(self.prompts)

    def prompt(self, index: int) -> Prompt:
        return self.prompts[index]


def ranked(name: str, *completions: str, **columns: Any) -> Prompt:
    return Prompt(id=name, text=f"{name}=", columns={"completions": list(completions), **columns})


MIXED = (
    ranked("1", "10", "1", "111", "2", ranks=[1, 2, 2, 3], gap=0.5),
    ranked("22", "3", "4567", scores=[-0.5, 2], gap=0),
    Prompt(id="3", text="333=", columns={"chosen": "3", "rejected": "33333333", "gap": 1.0}),
    ranked("4", "4", "5", "6", scores=[1, 1, 1], gap=2),
    Prompt(id="5", text="5=", columns={"chosen": "12", "rejected": "21", "gap": 0.25}),
)
"""Five (two ranks are equal), one, one, no and one comparison."""


def module(**changes: Any) -> RewardModeling:
    settings: dict[str, Any] = {
        "policy": Exact(),
        "batch_size": 5,
        "columns": RankingColumns(margin="gap"),
        "centring": 0.1,
        "optimizer": lambda p: torch.optim.SGD(p, lr=1.0),
        "max_grad_norm": None,
    }
    return RewardModeling(**{**settings, **changes})


def fit(folder: Path, subject: RewardModeling, data: PromptData, **changes: Any) -> Trainer:
    torch.manual_seed(0)
    checkpoint = changes.pop("ckpt_path", None)
    run = quiet_trainer(num_sanity_val_steps=0, default_root_dir=folder, **{"max_steps": 1, **changes})
    run.fit(subject, datamodule=data, ckpt_path=checkpoint)
    return run


def by_hand() -> tuple[RewardNetwork, torch.Tensor]:
    """The loss of `MIXED`, comparison by comparison, one row at a time."""
    torch.manual_seed(0)
    network = RewardNetwork(Exact().build())

    def score(prompt: Prompt, completion: str) -> torch.Tensor:
        ids = network.tokenizer(f"{prompt.text}{completion}<eos>", return_tensors="pt")["input_ids"]
        return network.model.score(network.model.transformer(ids).last_hidden_state)[0, -1, 0]

    compared = {
        "1": [("10", "1"), ("10", "111"), ("10", "2"), ("1", "2"), ("111", "2")],
        "22": [("4567", "3")],
        "3": [("3", "33333333")],
        "5": [("12", "21")],
    }
    total = torch.zeros((), dtype=torch.float64)
    for prompt in MIXED:
        pairs = compared.get(prompt.id, [])
        for better, worse in pairs:
            r, s = score(prompt, better), score(prompt, worse)
            total = total + (-logsigmoid(r - s - prompt.columns["gap"]) + 0.1 * (r + s) ** 2) / (len(pairs) * 4)
    return network, total


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("budget", [None, 12, 40, 90], ids=str)
def test_the_step_is_the_mean_over_prompts_of_their_comparisons_whatever_the_micro_batches(tmp_path: Path, budget: int | None) -> None:
    subject = module(micro_batch_tokens=budget)
    run = fit(tmp_path, subject, PromptData(train=Given(*MIXED), shuffle=False))
    network, loss = by_hand()
    loss.backward()
    assert float(run.callback_metrics["loss"]) == pytest.approx(loss.item(), abs=1e-6)
    assert float(run.callback_metrics["prompts/zero_variance"]) == pytest.approx(0.2)
    for (name, moved), before in zip(subject.policy.named_parameters(), network.parameters(), strict=True):
        assert before.grad is not None, name
        assert float((before.detach() - before.grad - moved.detach()).abs().max()) <= 1e-10, name


@pytest.mark.usefixtures("plain_rows")
def test_every_completion_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, ...]] = []
    forward = RewardNetwork.forward

    def noted(self: RewardNetwork, input_ids: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        read.append(tuple(input_ids.shape))
        return forward(self, input_ids, last)

    monkeypatch.setattr(RewardNetwork, "forward", noted)
    fit(tmp_path, module(micro_batch_tokens=60), PromptData(train=Given(*MIXED)))
    assert sum(rows for rows, _ in read) == 4 + 2 + 2 + 3 + 2
    assert all(rows * length <= 60 for rows, length in read)


def test_a_head_of_zeros_has_a_loss_of_ln_2_and_equal_scores_are_half_right(tmp_path: Path) -> None:
    subject = module(columns=RankingColumns(), optimizer=lambda p: torch.optim.SGD(p, lr=0.0))
    data = PromptData(train=Given(*MIXED[:3]), validation=Given(*MIXED[4:]))
    build = subject.build_models

    def zeroed() -> None:
        build()
        torch.nn.init.zeros_(subject.policy.model.score.weight)

    subject.build_models = zeroed  # type: ignore[method-assign]
    numbers = fit(tmp_path, subject, data).callback_metrics
    assert float(numbers["loss"]) == pytest.approx(math.log(2), abs=1e-6)
    assert float(numbers["val/loss"]) == pytest.approx(math.log(2), abs=1e-6)
    assert float(numbers["val/accuracy"]) == 0.5
    assert float(numbers["val/margin"]) == 0.0
    assert float(numbers["val/calibration/error"]) == 0.0


def test_validation_reports_what_the_scores_say(tmp_path: Path) -> None:
    subject = module(optimizer=lambda p: torch.optim.SGD(p, lr=0.0), micro_batch_tokens=50)
    data = PromptData(train=Given(Prompt(id="t", text="7=", columns={"chosen": "7", "rejected": "8", "gap": 0})), validation=Given(*MIXED))
    numbers = fit(tmp_path, subject, data).callback_metrics
    rankings = encode_rankings(subject.policy, MIXED, subject.columns)
    with torch.no_grad():
        scores, compared = subject.policy(*rankings.rows()), rankings.comparisons()
        _, loss = by_hand()
    lead = scores[compared.better] - scores[compared.worse]
    assert len(lead) == 8
    assert float(numbers["val/accuracy"]) == pytest.approx(float((lead > 0).double().mean()))
    assert float(numbers["val/margin"]) == pytest.approx(float(lead.mean()), abs=1e-6)
    assert float(numbers["val/score/mean"]) == pytest.approx(float(scores.mean()), abs=1e-6)
    assert float(numbers["val/score/std"]) == pytest.approx(float(scores.std(correction=0)), abs=1e-6)
    assert float(numbers["val/loss"]) == pytest.approx(float(loss), abs=1e-6)
    right, sure = (lead > 0).tolist(), torch.sigmoid(lead.abs()).tolist()
    bins = [[i for i, p in enumerate(sure) if low <= p < low + 0.05] for low in torch.arange(10).mul(0.05).add(0.5).tolist()]
    assert len([rows for rows in bins if rows]) > 1
    assert float(numbers["val/calibration/0.50-0.55/share"]) == pytest.approx(len(bins[0]) / 8)
    assert float(numbers["val/calibration/0.50-0.55/accuracy"]) == pytest.approx(sum(right[i] for i in bins[0]) / len(bins[0]))
    assert float(numbers["val/calibration/0.55-0.60/confidence"]) == pytest.approx(sum(sure[i] for i in bins[1]) / len(bins[1]))
    gaps = [abs(sum(right[i] - sure[i] for i in rows)) / 8 for rows in bins]
    assert float(numbers["val/calibration/error"]) == pytest.approx(sum(gaps), abs=1e-6)


def test_it_learns_to_tell_right_from_wrong(tmp_path: Path) -> None:
    subject = module(
        policy=TinyPolicy(hidden=32, layers=2), batch_size=64, columns=RankingColumns(), centring=0.01, max_grad_norm=1.0,
        optimizer=lambda p: torch.optim.AdamW(p, lr=5e-3),
    )  # fmt: skip
    data = PromptData(train=SortedPairs(length=2, examples=100), validation_size=30)
    numbers = fit(tmp_path, subject, data, max_steps=60, val_check_interval=20, check_val_every_n_epoch=None).callback_metrics
    assert float(numbers["val/accuracy"]) >= 0.8
    assert abs(float(numbers["val/score/mean"])) < float(numbers["val/margin"])


def test_a_run_that_is_stopped_and_resumed_ends_at_the_same_weights(tmp_path: Path) -> None:
    def run(steps: int, **resumed: Any) -> tuple[RewardModeling, Trainer]:
        subject = module(batch_size=2, optimizer=lambda p: torch.optim.AdamW(p, lr=0.01))
        return subject, fit(tmp_path, subject, PromptData(train=Given(*MIXED)), max_steps=steps, **resumed)

    whole, _ = run(5)
    _, stopped = run(2)
    stopped.save_checkpoint(tmp_path / "stopped.ckpt")
    resumed, _ = run(5, ckpt_path=tmp_path / "stopped.ckpt")
    for (name, value), other in zip(whole.policy.state_dict().items(), resumed.policy.state_dict().values(), strict=True):
        assert torch.equal(value, other), name


def test_prediction_scores_completions_in_their_order(tmp_path: Path) -> None:
    subject = module(micro_batch_tokens=40)
    run = fit(tmp_path, subject, data := PromptData(train=Given(*MIXED[:2]), validation=Given(*MIXED[2:])))
    rows = list(itertools.chain(*run.predict(subject, datamodule=data)))
    rankings = encode_rankings(subject.policy, MIXED[2:], subject.columns)
    assert [(row["id"], row["completion"]) for row in rows] == [
        ("3", "3"), ("3", "33333333"), ("4", "4"), ("4", "5"), ("4", "6"), ("5", "12"), ("5", "21"),
    ]  # fmt: skip
    with torch.no_grad():
        assert [row["score"] for row in rows] == pytest.approx(subject.policy(*rankings.rows()).tolist(), abs=1e-9)
    assert json.loads(json.dumps(rows)) == rows


def test_a_rank_without_prompts_takes_part_with_a_row_that_is_compared_with_nothing() -> None:
    dummy = Rankings.dummy()
    assert dummy.zero_variance == len(dummy) == 1
    assert len(dummy.comparisons().better) == 0
    assert dummy.rows()[0].shape == (1, 1)


def pair(**columns: Any) -> Prompt:
    return Prompt(id="q7", text="1=", columns=columns)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (pair(), "'q7' has nothing to compare.* has: none"),
        (pair(chosen="1"), "'q7' has no column 'rejected'"),
        (pair(chosen="1", rejected="1"), "'q7'.* the same completion"),
        (pair(chosen="1", rejected="  "), "'q7'.*empty"),
        (pair(completions="12", ranks=[1, 2]), "'q7'.*'completions' must hold a list of two or more texts"),
        (pair(completions=["1"], ranks=[1]), "'q7'.*two or more"),
        (pair(completions=["1", ""], ranks=[1, 2]), "'q7'.*none empty"),
        (pair(completions=["1", "2"]), "'q7'.*found neither"),
        (pair(completions=["1", "2"], ranks=[1, 2], scores=[1, 2]), "'q7'.*found ranks and scores"),
        (pair(completions=["1", "2"], ranks=[1, 2, 3]), "'q7'.*for each of the 2 completions"),
        (pair(completions=["1", "2"], scores=[1, float("nan")]), "'q7'.*one finite number"),
        (pair(completions=["1", "2"], ranks=[True, False]), "'q7'.*one finite number"),
    ],
)
def test_a_row_that_cannot_be_compared_is_named_before_the_first_step(tmp_path: Path, prompt: Prompt, message: str) -> None:
    good = Prompt(id="ok", text="2=", columns={"chosen": "2", "rejected": "3"})
    with pytest.raises(ValueError, match=message):
        fit(tmp_path, module(columns=RankingColumns()), PromptData(train=Given(good, prompt)))


@pytest.mark.parametrize("gap", [-1, "1", None, float("inf")], ids=str)
def test_a_margin_is_a_number_of_0_or_more(tmp_path: Path, gap: Any) -> None:
    with pytest.raises(ValueError, match=r"'q7'.*'gap'"):
        fit(tmp_path, module(), PromptData(train=Given(pair(chosen="1", rejected="2", gap=gap))))
    with pytest.raises(ValueError, match=r"'q7'.*: chosen, rejected"):
        fit(tmp_path, module(), PromptData(train=Given(pair(chosen="1", rejected="2"))))


def test_prompts_without_a_better_completion_are_counted_and_refused_if_there_are_no_others(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="of 5 prompts, 1 "):
        fit(tmp_path, module(), PromptData(train=Given(*MIXED)))
    twice = ranked("6", "7", "7", ranks=[1, 2], gap=0)
    with pytest.raises(ValueError, match="none of 2 prompts"):
        fit(tmp_path, module(), PromptData(train=Given(MIXED[3], twice)))


def test_a_prompt_is_as_long_as_its_longest_completion(tmp_path: Path) -> None:
    subject, data = module(batch_size=2), PromptData(train=Given(*MIXED), max_prompt_tokens=9)
    with pytest.warns(UserWarning, match=r"of 5 train prompts, 1 .* 9 tokens .*13.*'3'"):
        fit(tmp_path, subject, data)
    assert data.sizes()["dropped_too_long"] == 1
    narrow = TinyPolicy(**TINY, max_positions=12)
    with pytest.raises(ValueError, match=r"1 .* 12 tokens"):
        fit(tmp_path, module(policy=narrow), PromptData(train=Given(*MIXED), too_long="raise"))


def test_conversations_need_a_template() -> None:
    network = RewardNetwork(TinyPolicy(**TINY).build())
    asked = Prompt(id="q7", messages=({"role": "user", "content": "1"},), columns={"chosen": "1", "rejected": "2"})
    with pytest.raises(ValueError, match=r"'q7' .*chat template"):
        encode_rankings(network, [asked], RankingColumns())


def test_rows_of_a_file_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "ranked.jsonl"
    file.write_text(json.dumps({"prompt": "1=", "completions": ["1", "2"], "ranks": [2, 1]}))
    network = RewardNetwork(TinyPolicy(**TINY).build())
    rankings = encode_rankings(network, [JsonLines(str(file), answer=None, chat=False).prompt(0)], RankingColumns())
    assert rankings.pairs == [[(1, 0)]]
    assert rankings.conversations == [[[3, 15, 3, 1], [3, 15, 4, 1]]]


@pytest.mark.parametrize(("changes", "message"), [({"batch_size": 0}, "batch_size >= 1"), ({"centring": -0.1}, "centring >= 0")])
def test_settings_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module(**changes)
