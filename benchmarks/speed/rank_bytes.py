"""Counts what ranks send each other for the advantages of one rollout: `make bench CASE=rank_bytes`.

Processes that are connected by gloo compute the advantages of rows that they make up, for 2, 4 and 8 ranks; counted are the bytes that
each rank receives from the others, gradients and weights aside. What one rank gives does not depend on the number of ranks, so the table
goes on to 64 and 512. A part that needs all tokens, as every part did once, is measured beside the others. Peak memory is what the
process had more at its peak than before.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import resource
import socket
import sys
import warnings
from pathlib import Path
from typing import Any, TypeVar

import torch
from lightrl_dcpo import SmoothedAdvantage
from lightrl_workshop import hand_made_experience

from lightrl import GAE, Advantage, Algorithm, Experience, GroupNormalized, GroupRelative
from lightrl.strategies.adapter import SideGroup
from lightrl.training.online.experience import with_advantages

T = TypeVar("T")
GROUP = 8
"""Rows of a group."""


class AllTokens(GroupNormalized):
    """GRPO's advantage, given the rows of all ranks."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"all_tokens"})


PARTS: dict[str, type[Advantage]] = {
    "all tokens": AllTokens,
    "groups (GRPO)": GroupNormalized,
    "moments (GAE)": GAE,
    "prompts (DCPO)": SmoothedAdvantage,
}


class Counted(SideGroup):
    """Ranks that count the bytes which the others give."""

    received = given = 0

    def gather(self, value: T) -> list[T]:
        """As `Ranks.gather`."""
        everyone = super().gather(value)
        sizes = [len(pickle.dumps(one)) for one in everyone]
        own = len(pickle.dumps(value))
        self.received, self.given = self.received + sum(sizes) - own, self.given + own
        return everyone


def rows(rank: int, count: int, length: int) -> Experience:
    """Made-up rows of a rank, in groups, all of the same length."""
    values = torch.zeros(count, 2 + length)
    chance = torch.Generator().manual_seed(rank)
    scores = torch.randint(0, 2, (count,), generator=chance).double().tolist()
    return hand_made_experience(scores, lengths=[length] * count, group=[row // GROUP for row in range(count)], values=values)


def measure(rank: int, ranks: int, port: int, part: str, count: int, length: int, answers: Any) -> None:
    """The bytes and the peak of one rank; called in a process of its own."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".* needs all_tokens")
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    group, own = Counted(ranks), rows(rank, count, length)
    algorithm: Algorithm = GroupRelative()
    algorithm.advantage = PARTS[part]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with_advantages(own, algorithm, group, rank)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    answers.put((group.received, group.given, peak * 1024))
    torch.distributed.destroy_process_group()


def measured(ranks: int, part: str, count: int, length: int) -> dict[str, float]:
    """The largest of all ranks."""
    forks = multiprocessing.get_context("fork")
    answers = forks.Queue()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    processes = [forks.Process(target=measure, args=(rank, ranks, port, part, count, length, answers)) for rank in range(ranks)]
    for process in processes:
        process.start()
    given = [answers.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return {"received": max(one[0] for one in given), "given": max(one[1] for one in given), "peak": max(one[2] for one in given)}


def main() -> int:
    """Print and write the table; 1 if something grows with the tokens that should not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--beyond", type=int, nargs="+", default=[64, 512], help="ranks for which the bytes are computed")
    parser.add_argument("--rows", type=int, default=128, help="rows of a rank")
    parser.add_argument("--length", type=int, default=8192, help="tokens of a row")
    parser.add_argument("--short", type=int, default=512, help="tokens of a row where processes run")
    parser.add_argument("--out", type=Path, default=Path("runs/rank_bytes"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"bytes that a rank receives in a rollout; {arguments.rows} rows of each rank")
    print(f"{'':<18}{'tokens':>8}" + "".join(f"{f'{ranks} ranks':>16}" for ranks in [*arguments.ranks, *arguments.beyond]))
    table: dict[str, Any] = {}
    for part in PARTS:
        short = {ranks: measured(ranks, part, arguments.rows, arguments.short) for ranks in arguments.ranks}
        # what a rank gives for long rows is counted between two ranks
        long = measured(2, part, arguments.rows, arguments.length)
        beyond = {ranks: long["given"] * (ranks - 1) for ranks in [*arguments.ranks, *arguments.beyond]}
        counted = [short[ranks]["received"] for ranks in arguments.ranks]
        computed = [short[arguments.ranks[0]]["given"] * (ranks - 1) for ranks in arguments.beyond]
        print(f"{part:<18}{arguments.short:>8}" + "".join(f"{value:>16,.0f}" for value in [*counted, *computed]))
        print(f"{'':<18}{arguments.length:>8}" + "".join(f"{value:>16,.0f}" for value in beyond.values()))
        peaks = {ranks: short[ranks]["peak"] for ranks in arguments.ranks}
        print(f"{'  peak memory':<18}{arguments.short:>8}" + "".join(f"{value:>16,.0f}" for value in peaks.values()))
        table[part] = {"received": dict(zip(arguments.ranks, counted, strict=True)), "received_long": beyond, "peak": peaks}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "summary.json").write_text(json.dumps(table, indent=2) + "\n")
    # but for all tokens, nothing that travels is longer for longer rows
    ranks = arguments.beyond[-1]
    grows = [part for part, of in table.items() if part != "all tokens" and of["received_long"][ranks] > 100e6]
    print(f"grows with the tokens: {', '.join(grows)}" if grows else "only what needs all tokens grows with the tokens")
    return int(bool(grows))


if __name__ == "__main__":
    sys.exit(main())
