"""Determine the speed mode of the machine, independently of what is being measured.

The two cores of a virtual machine may be close together or far apart, and this changes every few seconds. If they
are far apart, engines that share work between threads run up to 2.2 times slower, each by another factor. The
computing speed of one core does not show it; the time in which a value travels from one core to the other and back
does. The other disturbances are a slower clock (a loop of multiply-adds on both cores at once) and other
processes.
"""

from __future__ import annotations

import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NEAR_NS = 150.0
"""Nanoseconds. A value takes about 30 to 110 ns between near cores here (Python's loop included), and about 250 ns
between far ones.
"""
SLOWER = 1.15
"""A loop of multiply-adds that takes this many times its usual best time means a slower clock, or another process.
"""
FOREIGN = 0.08
"""The share of the machine that other processes may use during a sample."""

BUSY_NS = 1000.0
"""Nanoseconds. No pair of cores is this far apart: another process was running on one of them."""

_TRIPS = 400
_GIVE_UP = 0.01
_MINE, _ITS = 0, 64  # bytes in cache lines of their own


@dataclass(frozen=True)
class Probe:
    """The result of one calibration: nanoseconds for one way between the cores, and seconds of the multiply-add
    loop on the slower core.
    """

    latency_ns: float
    fma_seconds: float


@dataclass(frozen=True)
class Sample:
    """One turn of a contestant: its median seconds per call, and the state of the machine before and after it."""

    seconds: float
    before: Probe
    after: Probe
    foreign: float
    stolen: bool


def mode(sample: Sample, best_fma: float) -> str:
    """Return "fast", "slow" (the cores were far apart) or "disturbed" (slower clock, other processes, stolen
    time).
    """
    if sample.stolen or sample.foreign > FOREIGN:
        return "disturbed"
    if max(sample.before.fma_seconds, sample.after.fma_seconds) > SLOWER * best_fma:
        return "disturbed"
    latency = max(sample.before.latency_ns, sample.after.latency_ns)
    return "disturbed" if latency > BUSY_NS else "slow" if latency > NEAR_NS else "fast"


@dataclass(frozen=True)
class Figure:
    """A contestant's figure: the median of its samples in the best mode that occurred."""

    seconds: float
    low: float
    high: float
    mode: str
    samples: int
    discarded: int


def figure(samples: Sequence[Sample], best_fma: float) -> Figure | None:
    """Return the median of the samples in fast mode; if there are none, of those in slow mode, else of all."""
    kinds = [mode(sample, best_fma) for sample in samples]
    for wanted in ("fast", "slow", "disturbed"):
        kept = [s.seconds for s, kind in zip(samples, kinds) if kind == wanted]
        if kept:
            return Figure(
                statistics.median(kept), min(kept), max(kept), wanted, len(kept), len(samples) - len(kept)
            )
    return None


def best_fma(samples: Iterable[Sample]) -> float:
    """Return the time of the multiply-add loop that a tenth of the probes undercut (infinity without samples). The
    very best times are not used, because the other core happened to be idle then.
    """
    found = sorted(p.fma_seconds for s in samples for p in (s.before, s.after))
    return found[len(found) // 10] if found else float("inf")


class Guard:
    """The calibration: a second process, and the system's counters. Use it as a context manager."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="anylayer-bench-")  # noqa: SIM115 (closed by close)
        self._file.write(bytes(4096))
        self._file.flush()
        self._map = mmap.mmap(self._file.fileno(), 4096)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._echo = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.guard", self._file.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parent.parent,
            env=environment,
        )
        self._ask(b"w")
        self.waited = 0.0

    def _ask(self, what: bytes) -> bytes:
        assert self._echo.stdin is not None and self._echo.stdout is not None
        self._echo.stdin.write(what)
        self._echo.stdin.flush()
        return self._echo.stdout.read(1)

    def probe(self) -> Probe:
        """Calibrate, in about 5 ms. The best of three tries counts, so a chance interruption does not matter."""
        with _on_core(0):
            tries = [self._latency() for _ in range(3)]
            assert self._echo.stdin is not None and self._echo.stdout is not None
            self._echo.stdin.write(b"f")
            self._echo.stdin.flush()
            mine = _fma()
            its = float(self._echo.stdout.readline())
        return Probe(min(tries), max(mine, its))

    def _latency(self) -> float:
        shared = memoryview(self._map)
        alone = _trips(shared, _MINE, _MINE)  # before the other process follows, which would lose count
        shared[_MINE] = shared[_ITS] = 255
        self._ask(b"p")
        together = _trips(shared, _MINE, _ITS)
        shared.release()
        return max(together - alone, 0.0) / (2 * _TRIPS) * 1e9

    def sample(self, turn: Callable[[], dict[str, Any]], patience: float) -> Sample:
        """Run one turn between two probes. Wait up to `patience` seconds for the cores to be near each other."""
        before = self.probe()
        start = time.perf_counter()
        while before.latency_ns > NEAR_NS and time.perf_counter() - start < patience:
            time.sleep(0.1)
            before = self.probe()
        self.waited += time.perf_counter() - start
        busy, stolen, own = *_busy(), time.process_time()
        start = time.perf_counter()
        reply = turn()
        wall = time.perf_counter() - start
        busy_after, stolen_after = _busy()
        foreign = busy_after - busy - reply["cpu"] - (time.process_time() - own)
        # The counters move in steps of 10 ms.
        share = max(0.0, foreign - 0.02) / (wall * (os.cpu_count() or 1))
        return Sample(reply["median"], before, self.probe(), share, stolen_after - stolen > 0.015)

    def close(self) -> None:
        """End the second process."""
        self._echo.kill()
        self._echo.wait()
        for stream in (self._echo.stdin, self._echo.stdout):
            if stream is not None:
                stream.close()
        self._map.close()
        self._file.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _on_core(place: int) -> Iterator[None]:
    """Keep this process on one of its cores (0: the first, -1: the last), if the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[place]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _busy() -> tuple[float, float]:
    """Return the seconds that all processors were busy and the seconds that the hypervisor took since the system
    started; zeros if the system does not report them.
    """
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return 0.0, 0.0
    user, nice, system, _, _, irq, softirq, steal = (int(f) / os.sysconf("SC_CLK_TCK") for f in fields)
    return user + nice + system + irq + softirq, steal


def _trips(shared: Any, mine: int, its: int) -> float:
    """Return the seconds until the byte `its` has followed `mine` _TRIPS times, or _GIVE_UP if it does not in that
    time.
    """
    start = time.perf_counter()
    for i in range(_TRIPS):
        value = i & 127
        shared[mine] = value
        tries = 0
        while shared[its] != value:
            tries += 1
            if tries > 500:
                tries = 0
                if time.perf_counter() - start > _GIVE_UP:
                    return _GIVE_UP
    return time.perf_counter() - start


def _follow(shared: Any) -> None:
    stop = time.perf_counter() + _GIVE_UP
    for i in range(_TRIPS):
        value, tries = i & 127, 0
        while shared[_MINE] != value:
            tries += 1
            if tries > 500:
                tries = 0
                if time.perf_counter() > stop:
                    return
        shared[_ITS] = value


def _fma() -> float:
    """Return the seconds of a fixed number of multiply-adds on this core. It is the median of fifteen, so that
    runs during which the other core is idle are ignored.
    """
    a = np.ones((48, 48), np.float32)
    b, seconds = a.copy(), []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(40):
            np.matmul(a, a, out=b)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _serve(path: str) -> None:
    """Serve as the second process: follow (p), multiply and add (f), report that it waits (w)."""
    with _on_core(-1), Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 4096) as shared:
        view = memoryview(shared)
        while command := os.read(0, 1):
            if command == b"f":
                os.write(1, f"{_fma()}\n".encode())
                continue
            os.write(1, b".")
            if command == b"p":
                _follow(view)
        view.release()


def plain(samples: Iterable[Sample], fma: float) -> list[list[Any]]:
    """Return the samples as they are saved: seconds, mode, nanoseconds between the cores, seconds of the
    multiply-adds (the larger of before and after), and the share of other processes.
    """
    return [
        [
            float(f"{s.seconds:.4g}"),
            mode(s, fma),
            round(max(s.before.latency_ns, s.after.latency_ns)),
            float(f"{max(s.before.fma_seconds, s.after.fma_seconds):.3g}"),
            round(s.foreign, 2),
        ]
        for s in samples
    ]


if __name__ == "__main__":
    _serve(sys.argv[1])
