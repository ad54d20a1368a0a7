"""The commands of the README can be typed."""

import re
from pathlib import Path

import lightrl_judge
import yaml

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_rewards_of_the_readme_can_be_built() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    rewards = yaml.safe_load(block)["model"]["rewards"]
    built = {name: getattr(lightrl_judge, r["class_path"])(**r["init_args"]) for name, r in rewards.items() if isinstance(r, dict)}
    assert {name: type(judge).__name__ for name, judge in built.items()} == {"clear": "JudgeScore", "preferred": "JudgePreference"}
    assert built["clear"].accepts == {"prompt": True, "rubric": True, "completion": True}
    assert (built["clear"].gate, built["clear"].weight) == ("correct", 0.5)
