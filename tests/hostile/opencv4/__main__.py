"""The command `python -m tests.hostile.opencv4`; see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.writers.caffe.opencv4 import OpenCV4, server

from .judge import ENDS, EQUAL, REFUSED, judge, make
from .stated import row_of

Counts = Counter[tuple[str, str]]
"""How many networks had each end, and the layer and field that a row of the table names ("" for none)."""


def run(seeds: range, opencv: OpenCV4, verbose: bool = True) -> Counts:
    """Judge the networks of these seeds. Print those whose difference no row states."""
    counts: Counts = Counter()
    for seed in seeds:
        drawn = make(seed)
        verdict = judge(drawn, opencv)
        row = None if verdict.what in (EQUAL, REFUSED) else row_of(drawn, verdict)
        counts[verdict.what, f"{row.layer}: {row.what}" if row else ""] += 1
        if row is None and verdict.what not in (EQUAL, REFUSED) and verbose:
            text = verdict.layer.text() if verdict.layer else drawn.text
            print(f"--- seed {seed}: {verdict.what}: {verdict.reason}\n{text}{verdict.shapes or ''}\n", flush=True)
    return counts


def unstated(counts: Counts) -> int:
    """Return the number of differences that no row states."""
    return sum(n for (end, row), n in counts.items() if end not in (EQUAL, REFUSED) and not row)


def table(counts: Counts) -> str:
    """Return the counts as a Markdown table."""
    lines = ["| networks | | |", "|---:|---|---|"]
    order = sorted(counts.items(), key=lambda item: (ENDS.index(item[0][0]), -item[1]))
    plain = {EQUAL: "", REFUSED: ""}
    return "\n".join(
        [*lines, *(f"| {n:,} | {end} | {row or plain.get(end, 'not stated')} |" for (end, row), n in order)]
    )


def main() -> int:
    """Return 0 if every difference is stated, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.opencv4", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="number of networks")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first network")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the network of a seed, and run nothing")
    options = parser.parse_args()
    if options.show is not None:
        print(make(options.show).text, end="")
        return 0
    opencv = server()
    if opencv is None:
        print("OpenCV 4 is not installed; ANYLAYER_OPENCV4 names the Python that has it", file=sys.stderr)
        return 2
    start = time.perf_counter()
    counts = run(range(options.seed, options.seed + options.count), opencv)
    seconds = time.perf_counter() - start
    print(f"\n{options.count:,} networks from seed {options.seed}, OpenCV {opencv.version}, in {seconds:.0f} s\n")
    print(table(counts))
    return int(unstated(counts) > 0)


if __name__ == "__main__":
    sys.exit(main())
