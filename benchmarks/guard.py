"""Tell in which of its speeds the machine was, without looking at what is being measured.

A virtual machine's two cores may sit close together or far apart, and change places every few seconds: engines
that share work between threads run up to 2.2 times slower in the far places, and not all alike. What one core
computes does not show it; what does is the time in which a value goes from one core to the other and back. The
other disturbances are a slower clock (a loop of multiply-adds on both cores at once) and other processes.
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
"""One way of a value between near cores takes about 30 to 110 ns here (Python's loop included), between far ones
about 250."""
SLOWER = 1.15
"""A loop of multiply-adds this much above the usual best means a slower clock, or somebody else's work."""
FOREIGN = 0.08
"""The share of the machine other processes may use during a sample."""

BUSY_NS = 1000.0
"""No pair of cores is this far apart: something else was running on one of them."""

_TRIPS = 400
_GIVE_UP = 0.01
_MINE, _ITS = 0, 64  # bytes in cache lines of their own


@dataclass(frozen=True)
class Probe:
    """One calibration: nanoseconds one way between the cores, seconds of the multiply-add loop (the slower
    core's)."""

    latency_ns: float
    fma_seconds: float


@dataclass(frozen=True)
class Sample:
    """One contestant's turn: its median seconds a call, and the machine around it."""

    seconds: float
    before: Probe
    after: Probe
    foreign: float
    stolen: bool


def mode(sample: Sample, best_fma: float) -> str:
    """ "fast", "slow" (the cores were far apart) or "disturbed" (slower clock, other processes, stolen time)."""
    if sample.stolen or sample.foreign > FOREIGN:
        return "disturbed"
    if max(sample.before.fma_seconds, sample.after.fma_seconds) > SLOWER * best_fma:
        return "disturbed"
    latency = max(sample.before.latency_ns, sample.after.latency_ns)
    return "disturbed" if latency > BUSY_NS else "slow" if latency > NEAR_NS else "fast"


@dataclass(frozen=True)
class Figure:
    """A contestant's figure: the median of its samples in the best mode it was seen in."""

    seconds: float
    low: float
    high: float
    mode: str
    samples: int
    discarded: int


def figure(samples: Sequence[Sample], best_fma: float) -> Figure | None:
    """The median of the samples in fast mode; where there are none, of those in slow mode, else of all."""
    kinds = [mode(sample, best_fma) for sample in samples]
    for wanted in ("fast", "slow", "disturbed"):
        kept = [s.seconds for s, kind in zip(samples, kinds) if kind == wanted]
        if kept:
            return Figure(
                statistics.median(kept), min(kept), max(kept), wanted, len(kept), len(samples) - len(kept)
            )
    return None


def best_fma(samples: Iterable[Sample]) -> float:
    """The multiply-add loop that a tenth of the samples' probes undercut (infinite without any): the very best
    ones are those where the other core happened to rest."""
    found = sorted(p.fma_seconds for s in samples for p in (s.before, s.after))
    return found[len(found) // 10] if found else float("inf")


class Guard:
    """The calibration: a second process, and the counters of the system. Use as a context."""

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
        """Calibrate: about 5 ms. The best of three tries, so that a chance interruption does not count."""
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
        alone = _trips(shared, _MINE, _MINE)  # before the other process follows: it would lose count
        shared[_MINE] = shared[_ITS] = 255
        self._ask(b"p")
        together = _trips(shared, _MINE, _ITS)
        shared.release()
        return max(together - alone, 0.0) / (2 * _TRIPS) * 1e9

    def sample(self, turn: Callable[[], dict[str, Any]], patience: float) -> Sample:
        """One turn between two probes. Waits up to `patience` seconds for the cores to be near each other."""
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
    """Keep this process on one of its cores (the first, 0, or the last, -1), where the system can."""
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
    """Seconds all processors were busy, and seconds the hypervisor took, since the start of the system; zeros
    where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return 0.0, 0.0
    user, nice, system, _, _, irq, softirq, steal = (int(f) / os.sysconf("SC_CLK_TCK") for f in fields)
    return user + nice + system + irq + softirq, steal


def _trips(shared: Any, mine: int, its: int) -> float:
    """Seconds until `its` byte has followed `mine` _TRIPS times; _GIVE_UP where it does not in that time."""
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
    """Seconds of a fixed number of multiply-adds on this core: the median of fifteen, so that the few at either
    end that run while the other core rests do not count."""
    a = np.ones((48, 48), np.float32)
    b, seconds = a.copy(), []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(40):
            np.matmul(a, a, out=b)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _serve(path: str) -> None:
    """The second process: follow (p), multiply and add (f), say that it waits (w)."""
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
    """The samples as they are kept: seconds, mode, nanoseconds between the cores, seconds of the multiply-adds
    (the worse of before and after), the share of other processes."""
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
