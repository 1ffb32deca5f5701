"""The command `python -m tests.hostile.programs`; see the package."""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from .judge import judge
from .program import make

ROOT = Path(__file__).parents[3]
ENDS = ("traced", "in Python", "refused", "stated", "differs", "raises", "died", "hung")
_SECONDS = 60.0
"""The processor's time that one program may take on one engine. Beside other work, the clock may show _WAIT."""
_WAIT = 1800.0


class Child:
    """A process that judges programs. A program that ends it, or does not end itself, is a result."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, seed: int, engine: str) -> tuple[str, str]:
        """Return (the result of a program, the reason)."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.programs", "--child"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        process.stdin.write(f"{seed} {engine}\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _WAIT)
        line = process.stdout.readline() if ready else b""
        if line:
            what, reason = json.loads(line)
            return what, reason
        self.close()
        if not ready or process.returncode == -signal.SIGPROF:
            return "hung", f"no answer in {_SECONDS:g} s of the processor's time, or in {_WAIT:g} s"
        return "died", f"exit status {process.returncode}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _answer() -> None:
    """Serve as the child: read `seed engine` from each line, answer `[result, reason]`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        seed, engine = line.split()
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # ends this process
        verdict = judge(make(int(seed)), engine)
        answers.write(json.dumps([verdict.what, verdict.reason]) + "\n")
        answers.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(
    seeds: range, engines: list[str], *, verbose: bool = True, minutes: float = math.inf
) -> dict[str, Counter[str]]:
    """Judge the programs of these seeds on each engine. Print the wrong ones, and why others are not traced.

    No program is begun after so many minutes.
    """
    stop = time.monotonic() + 60 * minutes
    counts = {engine: Counter[str]() for engine in engines}
    reasons: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    child = Child()
    for seed in seeds:
        if time.monotonic() > stop:
            break
        for engine in engines:
            what, reason = child.ask(seed, engine)
            counts[engine][what] += 1
            if what in ("in Python", "refused"):
                reasons[what, reason] += 1
                first.setdefault((what, reason), seed)
            elif what not in ("traced", "stated") and verbose:
                print(f"--- seed {seed}, {engine}: {what}: {reason}\n", flush=True)
    child.close()
    if verbose:
        for (what, reason), count in reasons.most_common(40):
            print(f"{count:6d} {what}: {reason} (seed {first[what, reason]})")
    return counts


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the counts as a Markdown table."""
    rows = [f"| engine | {' | '.join(ENDS)} |", "|---|" + "---:|" * len(ENDS)]
    rows += [f"| {engine} | {' | '.join(f'{found[end]:,}' for end in ENDS)} |" for engine, found in counts.items()]
    return "\n".join(rows)


def main() -> int:
    """Return 0 if no result is wrong, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.programs", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="number of programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    names = "ENGINE, open:ENGINE (open sizes), file:ENGINE (a written file) or open:file:ENGINE"
    parser.add_argument("-e", "--engine", action="append", help=f"{names}; may be repeated [onnxruntime]")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no program after so long")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed, and run nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _answer()
        return 0
    if options.show is not None:
        print(make(options.show).text, end="")
        return 0
    start = time.perf_counter()
    seeds = range(options.seed, options.seed + options.count)
    counts = run(seeds, options.engine or ["onnxruntime"], minutes=options.minutes)
    count = max(found.total() for found in counts.values())
    print(f"\n{count:,} programs from seed {options.seed} in {time.perf_counter() - start:.0f} s\n")
    print(table(counts))
    return int(any(found[end] for found in counts.values() for end in ("differs", "raises", "died", "hung")))


if __name__ == "__main__":
    sys.exit(main())
