"""What a policy or a data file writes stays text in TensorBoard's tables and on the terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightrl_workshop import rollouts_with
from tensorboard.plugin_util import markdown_to_safe_html

from lightrl import Prompt, TinyPolicy, TransformersEngine
from lightrl.callbacks.completions_log import completions_table, terminal_lines
from lightrl.callbacks.shown_text import code, name_cell, quoted, visible

IMAGE = "![x](http://example.org/seen.png)"
BREAKS = ["\r", "\n", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
TEXTS = st.lists(st.sampled_from([*BREAKS, IMAGE, "[a](http://b)", "<img src=http://b>", "`", "``", "|", "\\", "\n\n", "a ", "---", "$"]))


@pytest.mark.parametrize("line_break", BREAKS)
def test_no_line_break_lets_a_completion_place_an_image_into_the_table(line_break: str) -> None:
    policy = TinyPolicy(hidden=8, layers=1, heads=2).build()
    loop = rollouts_with(policy, TransformersEngine(max_new_tokens=2))
    rollout = loop.rollout([Prompt(id="a", text="1+1=")], 1)
    rollout.completions[0] = f"2{line_break}{IMAGE}"
    shown = completions_table(rollout, 1)
    assert len(shown.splitlines()) == 3
    assert "<img" not in markdown_to_safe_html(shown)
    assert len(terminal_lines(rollout, 1).splitlines()) == 4


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_no_texts_beside_each_other_leave_their_cells(one: list[str], two: list[str], role: list[str]) -> None:
    row = f"{name_cell(''.join(role)) or '-'} {code(''.join(one))} | {code(''.join(two))} | end"
    html = markdown_to_safe_html(f"said | more | last\n--- | --- | ---\n{row}")
    assert not re.search(r"<(img|a)\b", html), row
    assert html.count("<tr>") == 2


@given(st.text())
def test_what_is_shown_can_be_written_and_commands_no_terminal(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert quoted(text).isprintable()


def test_half_of_a_surrogate_pair_and_a_terminals_commands_are_escaped() -> None:
    assert visible("a\ud800b") == r"a\ud800b"
    assert quoted("\x9b31m\x1b]0;title\x07\x7f\u202e") == r'"\x9b31m\u001b]0;title\u0007\x7f\u202e"'
