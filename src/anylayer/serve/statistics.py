"""Counts and times of requests, with the names of Triton's extension_statistics.md."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from anylayer.serve.protocol import VERSION

_PARTS = (
    "success",
    "fail",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "cache_hit",
    "cache_miss",
)


class Statistics:
    """The requests of one process, and the runs of its model by number of samples, in nanoseconds."""

    def __init__(self, runs: Counter[int] | None = None, run_times: Counter[int] | None = None) -> None:
        self.counts, self.times = Counter[str](), Counter[str]()
        self.runs = Counter[int]() if runs is None else runs
        self.run_times = Counter[int]() if run_times is None else run_times
        self.last = 0

    def add(self, **times: int) -> None:
        """Count a request and the times of its parts."""
        self.counts.update(times.keys())
        self.times.update(times)
        self.last = time.time_ns() // 1_000_000


def statistics_json(model: str, processes: Sequence[Statistics]) -> dict[str, object]:
    """Return the sum of the statistics of the processes that serve a model, as an element of "model_stats"."""
    counts, times = (sum((getattr(p, key) for p in processes), Counter[str]()) for key in ("counts", "times"))
    runs, run_times = (sum((getattr(p, key) for p in processes), Counter[int]()) for key in ("runs", "run_times"))
    return {
        "name": model,
        "version": VERSION,
        "last_inference": max((p.last for p in processes), default=0),
        "inference_count": sum(size * count for size, count in runs.items()),
        "execution_count": runs.total(),
        "inference_stats": {part: {"count": counts[part], "ns": times[part]} for part in _PARTS},
        "batch_stats": [
            {"batch_size": size, "compute_infer": {"count": runs[size], "ns": run_times[size]}}
            for size in sorted(runs)
        ],
    }
