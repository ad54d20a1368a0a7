"""The pieces of the demonstration with a chat model: the sums that are held out, the reward, and a run with a tiny policy."""

from __future__ import annotations

import json
import string
import sys
from pathlib import Path

import pytest

from lightrl import LoadedPolicy, PretrainedPolicy, TinyPolicy

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import chat_demo


def test_nothing_like_a_held_out_sum_is_trained_on() -> None:
    trained, held_out = ({frozenset(pair) for pair in some} for some in chat_demo.pairs())
    assert not trained & held_out
    assert (len(trained), len(held_out)) == (30, 15)
    asked = [chat_demo.Sums(some).sums for some in chat_demo.pairs()]
    assert sorted(asked[0] + asked[1]) == [(a, b) for a in range(1, 10) for b in range(1, 10)]
    assert not {sum_[::-1] for sum_ in asked[0]} & set(asked[1])


def test_the_last_number_decides() -> None:
    assert chat_demo.right("3 + 8 = 11.", "11") == chat_demo.right("11", "11") == 1
    assert chat_demo.right("11 = 3 + 8", "11") == chat_demo.right("111", "11") == chat_demo.right("none", "11") == 0


@pytest.mark.filterwarnings("ignore")
def test_a_tiny_policy_goes_through_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = TinyPolicy(hidden=16, layers=1, heads=2, alphabet=string.printable).build()
    tiny.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
    notes = chat_demo.train(LoadedPolicy(tiny.model, tiny.tokenizer), 0, 2, tmp_path)
    chat_demo.report(notes, 0, tmp_path, 1.0)
    assert [rollouts for rollouts, _ in notes.accuracy] == [0, 2]
    assert (len(notes.rewards), len(notes.in_four)) == (2, 2)
    assert [len(said) for said in notes.said] == [6, 6]
    assert len({asked for asked, _ in notes.said[0]}) == 6
    assert json.loads((tmp_path / "summary.json").read_text())["rollouts"] == 2
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "held-out sum" in capsys.readouterr().out
    assert PretrainedPolicy(str(tmp_path / "policy")).build().tokenizer.chat_template == tiny.tokenizer.chat_template
