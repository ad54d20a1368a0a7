"""The processor time and the memory that data of so many prompts need before a run begins.

Called by growth.py as `python -m benchmarks.speed.growth_data ROWS FOLDER`.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path

# what a run has imported by then
import datasets  # noqa: F401
import lightning.pytorch  # noqa: F401
import transformers  # noqa: F401

from lightrl.data.files import JsonLines
from lightrl.data.prompt_data import PromptData
from lightrl.policy.tiny import ALPHABET, character_tokenizer
from lightrl.text.encoding import encode_prompt
from lightrl.text.token_bound import TokenBound

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def peak_gb() -> float:
    """The most memory of this process so far."""
    # what getrusage says begins with the peak of the process that started this one
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 2**20


def main() -> None:
    """Write the data, and read them as a run does."""
    rows, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    file, source = folder / f"{rows}.jsonl", random.Random(0)
    with file.open("w") as lines:
        for number in range(rows):
            words = " ".join("".join(source.choices(LETTERS, k=5)) for _ in range(12))
            lines.write(json.dumps({"prompt": f"{number}: {words}?", "answer": str(number)}) + "\n")
    tokenizer, before, begun = character_tokenizer(ALPHABET + LETTERS, 2048), peak_gb(), time.process_time()
    data = PromptData(JsonLines(str(file), chat=False), validation_size=100)
    data.measure(lambda prompt: encode_prompt(tokenizer, prompt).ids, 1024, TokenBound(tokenizer))
    data.columns()
    data.draw(16)
    print(json.dumps({"cpu_s": time.process_time() - begun, "peak_gb": round(peak_gb() - before, 3)}))
    file.unlink()


if __name__ == "__main__":
    main()
