"""Read, run and write mutated files of every format, and count those that are neither correct nor properly
refused.

    python -m tests.hostile.fuzz --count 100000 --seed 0 -o DIR

File I of seed S is the same on every machine: `--only I` tries that file alone. The files come from corpus.py, the
mutations from mutations.py. With `--order` the order of attributes and fields is changed instead, and with
`--nested` the operators are moved into functions, branches and loops (nested.py): the numbers must stay the same.
Each file is read in a process with limited memory and processor time; then it is inspected, or run on an engine,
or written by one of the three writers and verified, or read and run with the interface of OpenCV.

The command counts files that are correct ("ok"), files that are refused by an AnyLayerError that names a file, and
faults: "foreign" is another exception, "nofile" a message that names no file, "hung" more than 20 s of processor
time, "memory" more than 1000 MiB, besides ten times the values of a network that is correct, "died" a process
that ended. DIR gets the smallest file of each distinct fault, report.txt with the printed table, and wrapped.txt
with the messages that only wrap another exception.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

import numpy as np

import anylayer
from anylayer.numerics import normal_noise

from . import mutations
from .corpus import Sample, kinds, samples
from .nested import nested
from .trial import FRAMEWORKS, End, Trials, opencv_net

FAULTS = ("foreign", "nofile", "hung", "memory", "died")
COLUMNS = ("ok", "refused", *FAULTS)
_MEMORY = 1000
"""MiB that a file may use."""
_OF_VALUES = 10
"""How many times the memory of its values a network may use besides, unless its file is refused."""
_SECONDS = 20
_ACTIONS: tuple[dict[str, Any], ...] = (
    {"engines": [], "write": ["o.onnx"]},
    {"engines": [], "write": ["o.xml"]},
    {"engines": [], "write": ["o.prototxt"]},
    {"engines": [], "write": [], "inspect": True},
    {"engines": ["numpy"], "write": []},
    {"engines": ["onnxruntime"], "write": []},
    {"engines": ["openvino"], "write": []},
)
_OPENCV: tuple[dict[str, Any], ...] = (
    {"engines": [], "write": [], "opencv": "files"},
    {"engines": [], "write": [], "opencv": "buffers"},
)
"""Actions with the interface of OpenCV's dnn module."""
_WRAPPED = re.compile(r"\((\w*(?:Error|Exception)): ")


@dataclass(frozen=True)
class Try:
    """A mutated file, and the action after it is read."""

    index: int
    sample: Sample
    files: dict[str, bytes]
    action: dict[str, Any]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))


def made(seed: int, index: int, among: Sequence[str]) -> Try:
    """Return file `index` of a seed. It is always the same."""
    random = Random(f"{seed}/{index}")
    sample = random.choice(samples(random.choice(among)))
    files = dict(sample.files)
    if random.random() < 0.2:
        files[sample.model] = nested(sample.model, files[sample.model], random)
    names = sorted(files, key=lambda name: name != sample.model)
    name = names[0] if len(names) == 1 or random.random() < 0.6 else random.choice(names[1:])
    files[name] = mutations.file(name, files[name], random)
    actions = _OPENCV if sample.model.endswith(tuple(FRAMEWORKS)) and random.random() < 0.2 else _ACTIONS
    return Try(index, sample, files, random.choice(actions))


def tried(one: Try, trials: Trials) -> End:
    """Try a file as `trial.attempt` describes."""
    more = {"inspect": False, "kind": one.sample.kind, **one.action}
    return trials.files(one.files, one.sample.model, one.sample.weights, **more)


def verdict(one: Try, found: End) -> str:
    """Return the column of the table for a result."""
    if found.end in ("hung", "died"):
        return found.end
    is_valid = found.end in ("ok", "EngineError", "ConversionError")
    if found.peak > _MEMORY + (_OF_VALUES * found.values if is_valid else 0):
        return "memory"
    if found.end == "ok":
        return "ok"
    if not found.fine:
        return "foreign"
    named = [*one.sample.files, *one.action["write"], "o.bin", "o.caffemodel"]
    named += ["buffer"] * (one.action.get("opencv") == "buffers")
    return "refused" if any(name in found.text for name in named) else "nofile"


def signature(one: Try, column: str, found: End) -> str:
    """Return what identifies a fault: for an exception, its class and the deepest line of this package."""
    lines = re.findall(r'File "[^"]*/(anylayer/[^"]+)", line (\d+)', found.trace)
    where = ":".join(lines[-1]) if lines and column == "foreign" else one.sample.kind
    words = re.sub(r"[0-9]+|'[^']*'", "", found.text[:80]) if column == "nofile" else ""
    return f"{column} {found.end} {where} {words}".strip()


@dataclass
class Report:
    """The counts by kind and column, the smallest file of each fault, and the wrapped exceptions by message."""

    counts: dict[str, collections.Counter[str]] = field(default_factory=dict)
    faults: dict[str, tuple[int, Try, End]] = field(default_factory=dict)
    seen: collections.Counter[str] = field(default_factory=collections.Counter)
    wrapped: collections.Counter[str] = field(default_factory=collections.Counter)
    seconds: dict[str, float] = field(default_factory=lambda: collections.defaultdict(float))

    def add(self, one: Try, found: End) -> None:
        """Count a result."""
        column = verdict(one, found)
        self.counts.setdefault(one.sample.kind, collections.Counter())[column] += 1
        self.seconds[one.sample.kind] += found.seconds
        for match in _WRAPPED.finditer(found.text):
            layer = re.search(r"\((\w[\w.>]*)\): ", found.text)
            rest = re.sub(r"[0-9]+", "N", found.text[match.start() : match.start() + 90])
            self.wrapped[f"{one.sample.kind} {layer[1] if layer else ''} {rest}"] += 1
        if column in FAULTS:
            key = signature(one, column, found)
            self.seen[key] += 1
            if key not in self.faults or one.size < self.faults[key][0]:
                self.faults[key] = (one.size, one, found)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Return the rows of the table."""
        yield ("format", "files", *COLUMNS, "ms each")
        total: collections.Counter[str] = collections.Counter()
        for kind in sorted(self.counts):
            total += self.counts[kind]
            yield self._row(kind, self.counts[kind], self.seconds[kind])
        yield self._row("all", total, sum(self.seconds.values()))

    @staticmethod
    def _row(name: str, counts: collections.Counter[str], seconds: float) -> tuple[str, ...]:
        files = sum(counts.values())
        return (name, str(files), *(str(counts[c]) for c in COLUMNS), f"{1000 * seconds / max(files, 1):.1f}")

    def text(self) -> str:
        """Return the table, then each distinct fault with its count and its smallest file."""
        rows = list(self.rows())
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            for row in rows
        ]
        for key in sorted(self.faults, key=lambda k: -self.seen[k]):
            _, one, found = self.faults[key]
            lines.append(f"\n{self.seen[key]}x {key}\n  file {one.index}: {found.text[:300]}")
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> None:
        """Write report.txt, wrapped.txt, and the smallest file of each fault with its message."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.txt").write_text(self.text(), encoding="utf-8", errors="backslashreplace")
        several = [f"{count} {what}" for what, count in self.wrapped.most_common()]
        (folder / "wrapped.txt").write_text("\n".join(several) + "\n", encoding="utf-8", errors="backslashreplace")
        for key, (_, one, found) in self.faults.items():
            name = f"{key.split()[0]}_{one.sample.kind}_{hashlib.sha256(key.encode()).hexdigest()[:8]}"
            for path, data in one.files.items():
                (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / path).write_bytes(data)
            text = f"{key}\nfile {one.index}, {json.dumps(one.action)}\n{found.end}: {found.text}\n{found.trace}"
            (folder / name / "message.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def run(seed: int, indices: range, among: Sequence[str], jobs: int = 1, minutes: float = 1e9) -> Report:
    """Try files, `jobs` at a time, until all are tried or the minutes have passed."""
    report, done = Report(), time.monotonic() + 60 * minutes
    work: SimpleQueue[int | None] = SimpleQueue()
    for item in [*indices, *[None] * jobs]:
        work.put(item)
    for kind in among:
        samples(kind)

    def worker(_: int) -> None:
        with Trials(memory=8000, seconds=_SECONDS) as trials:
            while (index := work.get()) is not None and time.monotonic() < done:
                one = made(seed, index, among)
                report.add(one, tried(one, trials))

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(worker, range(jobs)))
    return report


def other_form(seed: int, index: int, among: Sequence[str], is_nested: bool = False) -> str:
    """Reorder attributes and fields of file `index`, or nest its operators, and return how its numbers differ;
    "" if they are the same.

    A nested network is read from a buffer with the interface of OpenCV. A file that is refused is refused in any
    form. One whose numbers are random is left out.
    """
    random = Random(f"{'nested' if is_nested else 'order'}/{seed}/{index}")
    sample = random.choice(samples(random.choice(among)))
    moved = {
        name: (nested if is_nested else mutations.reordered)(name, data, random)
        for name, data in sample.files.items()
    }
    want = _numbers(sample, sample.files, "files" if is_nested else "")
    got = _numbers(sample, moved, "buffers" if is_nested else "")
    if isinstance(want, str) or isinstance(got, str):
        same = isinstance(want, str) and isinstance(got, str)
        return "" if same else f"file {index} ({sample.kind}): {want if isinstance(want, str) else got}"
    if _equal(want, got) or not _equal(want, _numbers(sample, sample.files)):
        return ""
    return f"file {index} ({sample.kind}): other numbers"


def _equal(want: Any, got: Any) -> bool:
    return len(want) == len(got) and all(
        a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(want, got)
    )


def _numbers(sample: Sample, files: dict[str, bytes], opencv: str = "") -> list[Any] | str:
    """Return the outputs of a network on noise, computed by NumPy, or the error. opencv: as in `opencv_net`; by
    default the network is read by anylayer.read.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            model, weights = Path(folder, sample.model), Path(folder, sample.weights) if sample.weights else None
            net = opencv_net(model, weights, opencv).net if opencv else anylayer.read(model, weights)
            if not opencv and not net.network.weights:
                net.fill()
            types = {name: kind for name, kind in net.inputs.items() if kind is not None}
            return list(net.compile("numpy")(dict(zip(types, normal_noise(types.values())))).values())
        except anylayer.AnyLayerError as error:
            return f"{type(error).__name__}: {error}"


def main() -> int:
    """Parse the command line, try the files, print and save the report. The exit status is 1
    if there are faults.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=5000, help="number of files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--kinds", default="", help="formats, separated by commas; all by default")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this many minutes")
    parser.add_argument("--only", type=int, help="try only this file, and print the result")
    parser.add_argument("--order", action="store_true", help="reorder attributes and fields: the same numbers")
    parser.add_argument("--nested", action="store_true", help="nest the operators: the same numbers")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("fuzz"), help="folder for the report and the files"
    )
    asked = parser.parse_args()
    among = asked.kinds.split(",") if asked.kinds else kinds()
    indices = range(asked.count) if asked.only is None else range(asked.only, asked.only + 1)
    start = time.monotonic()
    if asked.order or asked.nested:
        found = [
            how
            for i in indices
            if time.monotonic() < start + 60 * asked.minutes
            and (how := other_form(asked.seed, i, among, asked.nested))
        ]
        print("\n".join(found) or "the same numbers in any form")
        return 1 if found else 0
    report = run(asked.seed, indices, among, asked.jobs, asked.minutes)
    report.save(asked.output)
    print(report.text(), end="")
    print(f"\n{time.monotonic() - start:.0f} s with {asked.jobs} processes")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
