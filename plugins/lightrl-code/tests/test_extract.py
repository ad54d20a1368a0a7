import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightrl_code.unit_tests import code_of


@pytest.mark.parametrize(
    ("completion", "code", "fenced"),
    [
        ("    return 1\n", "    return 1\n", False),
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1\n", True),
        ("```py\nx = 1\n```\nbetter:\n```Python\nx = 2\n```", "x = 2\n", True),
        ("```python\nx = 1\n```\nwhich prints\n```\n1\n```", "x = 1\n", True),
        ("```\nx = 1\n```\nrun it with\n```bash\npython x.py\n```", "x = 1\n", True),
        ("```python\nx = 1", "x = 1", True),
        ("<think>```python\nx = 1\n```</think>\n```python\nx = 2\n```", "x = 2\n", True),
        ("<think>hm</think>x = 1", "x = 1", False),
        ("<think>```python\nx = 1\n```", "", False),
        ("```python\nx = 1\n```<think>```python\nx = 2\n```", "x = 1\n", True),
        ("```json\n{}\n```", "```json\n{}\n```", False),
        ('```python\nx = "```"\n```', 'x = "```"\n', True),
        ("", "", False),
    ],
)
def test_code_of(completion: str, code: str, fenced: bool) -> None:
    assert code_of(completion) == (code, fenced)


@given(st.text(alphabet=st.characters(exclude_characters="`<"), max_size=60))
def test_a_fence_around_any_program_comes_off(program: str) -> None:
    text = program.replace("\r", "\n") + "\n"
    assert code_of(f"Sure.\n```python\n{text}```\nThat is it.") == (text, True)
