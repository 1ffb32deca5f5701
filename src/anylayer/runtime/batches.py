"""Run requests of one or several samples on a compiled model, as batches where that is faster.

Whether it is faster, and how large batches should be, is measured. A batch is made only of a network whose samples
do not depend on each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError, InputError, need
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import Array, TensorType
from anylayer.numerics import uniform_noise
from anylayer.runtime.choice import agree
from anylayer.runtime.model import Model
from anylayer.runtime.timing import fastest_run

_GAIN = 0.95
"""A larger batch is used if its time per sample is below this share of that of the smaller one."""
_SECONDS, _RUNS = 0.1, 3
"""The seconds for which a batch size is measured, and the smallest number of runs."""

Arrays = Mapping[str, Array]


class Batches:
    """A compiled model that runs several requests together. One thread may call it at a time.

    `size` is the number of samples per batch, a power of two; 1 if samples run one by one, and 0 if requests
    cannot be concatenated or split, so that each runs alone. `why` says why it is not larger. `seconds` maps batch
    sizes to the measured seconds per sample. `runs` counts the runs of the model by their number of samples, and
    `nanoseconds` adds up their times.
    """

    def __init__(self, model: Model, types: Mapping[str, TensorType], most: int) -> None:
        self.model = model
        self.seconds: dict[int, float] = {}
        self.runs, self.nanoseconds = Counter[int](), Counter[int]()
        with redirected_stdout(drop=True):
            self.size, self.why = self._measure(types, most)

    def _measure(self, types: Mapping[str, TensorType], most: int) -> tuple[int, str]:
        if not types or not all(kind.shape for kind in types.values()):
            return 0, "an input has no axis for samples"
        kinds = [TensorType((1, *kind.shape[1:]), kind.dtype) for kind in types.values()]
        samples = [dict(zip(types, uniform_noise(kinds, seed))) for seed in range(2)]
        try:
            alone = [self.model(sample) for sample in samples]
            both = self.model(_concat(samples))
        except AnyLayerError as error:
            return 0, f"the network does not run with other batch sizes: {error}"
        if not all(array.shape[:1] == (2,) for array in both.values()):
            return 0, "an output has no axis for samples"
        if not all(agree(_part(both, i, i + 1), outputs) for i, outputs in enumerate(alone)):
            return 0, "the samples of a batch depend on each other"
        if self.model.engine != "numpy" and not load_engine(self.model.engine).GENERAL:
            return 1, f"engine '{self.model.engine}' runs one sample at a time"
        return self._fastest(samples[0], most)

    def _fastest(self, sample: Arrays, most: int) -> tuple[int, str]:
        """Measure larger and larger batches until one is not faster per sample. Return the best, and why."""
        size = 1
        self.seconds[1] = self._time(sample, 1)
        while 2 * size <= most:
            self.seconds[2 * size] = self._time(sample, 2 * size)
            if self.seconds[2 * size] > _GAIN * self.seconds[size]:
                return size, f"batches of {2 * size} are not faster per sample than {size}"
            size *= 2
        return size, ""

    def _time(self, sample: Arrays, size: int) -> float:
        """Return the seconds per sample of the fastest of several runs."""
        arrays = {name: np.repeat(x, size, axis=0) for name, x in sample.items()}
        self.model(arrays)
        return fastest_run(lambda: self.model(arrays), _SECONDS, _RUNS) / size

    def __call__(self, requests: Sequence[Arrays]) -> list[dict[str, Array] | AnyLayerError]:
        """Return the outputs of each request, or the error that it raises when it runs alone."""
        results: list[dict[str, Array] | AnyLayerError] = [{} for _ in requests]
        groups: dict[object, list[int]] = {}
        for i, arrays in enumerate(requests):
            tails = tuple((n, x.shape[1:], x.dtype.str) for n, x in sorted(arrays.items()))
            groups.setdefault(tails if self.size else i, []).append(i)
        for group in groups.values():
            for i, result in zip(group, self._group([requests[i] for i in group])):
                results[i] = result
        return results

    def _group(self, requests: Sequence[Arrays]) -> Sequence[dict[str, Array] | AnyLayerError]:
        """Run requests whose samples have the same shapes."""
        try:
            if not self.size:
                return [self._run_once(arrays, 1) for arrays in requests]
            counts = [_samples(arrays) for arrays in requests]
            outputs = self._run(_concat(requests), sum(counts))
            ends = np.cumsum(counts)
            return [_part(outputs, int(end - n), int(end)) for n, end in zip(counts, ends)]
        except AnyLayerError as error:
            if len(requests) == 1:
                return [error]
            return [self._group([arrays])[0] for arrays in requests]

    def _run(self, arrays: Arrays, count: int) -> dict[str, Array]:
        """Run `count` samples in batches whose sizes are powers of two, so that few programs are compiled."""
        parts = [self._run_once(_part(arrays, start, end), end - start) for start, end in _cuts(count, self.size)]
        return dict(parts[0]) if len(parts) == 1 else _concat(parts)

    def _run_once(self, arrays: Arrays, samples: int) -> dict[str, Array]:
        """Run the model on a number of samples, and count the run."""
        start = time.perf_counter_ns()
        outputs = self.model(arrays)
        self.nanoseconds[samples] += time.perf_counter_ns() - start
        self.runs[samples] += 1
        return outputs


def _cuts(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `count` samples that run as one batch: of `size`, then of smaller powers of two."""
    start = 0
    while start < count:
        while size > count - start:
            size //= 2
        yield start, start + size
        start += size


def _samples(arrays: Arrays) -> int:
    """Return the number of samples of a request. Raises InputError where its inputs do not agree."""
    counts = {len(x) for x in arrays.values()}
    need(
        len(counts) == 1 and 0 not in counts, f"the inputs have different numbers of samples: {counts}", InputError
    )
    return counts.pop()


def _concat(parts: Sequence[Arrays]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _part(arrays: Arrays, start: int, end: int) -> dict[str, Array]:
    return {name: x[start:end] for name, x in arrays.items()}
