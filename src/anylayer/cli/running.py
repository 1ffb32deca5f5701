"""Run the items of `anylayer run`: in batches where that is faster, else one by one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from anylayer import inspect, libraries, runtime
from anylayer.cli.results import split_batch, without_empty_rows
from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError, InputError, need

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.cli.inputs import Loaded, Loader
    from anylayer.cli.items import Item
    from anylayer.network import Array
    from anylayer.runtime.model import Model

_MAX_RETIMED_SECONDS = 0.5
"""The first run includes one-time work. It is timed again if it took at most this many seconds."""

Outputs = dict[str, "Array"]


@dataclass
class Runner:
    """Runs items on one compiled model, up to `batch` of them together, and measures the time per frame.

    A batch can take more time per frame than a single frame, for example where the maps of one frame fit into the
    processor's caches and those of several do not. So the first batch is run both ways, and the faster way is used
    from then on. `why_single` says why frames run one by one although a batch was requested, `why_padded` why
    single frames run as a batch.
    """

    net: Net
    loader: Loader
    engine: str
    threads: int | None = None
    blobs: Sequence[str] = ()
    batch: int | None = None
    model: Model | None = None
    seconds: list[float] = field(default_factory=list)
    batch_size: int = 1
    why_single: str = ""
    why_padded: str = ""
    _shapes: set[object] = field(default_factory=set)
    _decided: bool = False

    def results(self, items: Sequence[Item]) -> Iterator[tuple[Item, Loaded | None, Outputs | str]]:
        """Yield each item with its loaded arrays and outputs, or a skipped item with None and the reason."""
        size = self._size(len(items))
        for group in self.loader.batches(items, size):
            loaded = [self._load(item, alone=len(items) == 1) for item in group]
            read = [one for one in loaded if not isinstance(one, str)]
            shapes = {tuple((n, a.shape) for n, a in one.arrays.items()) for one in read}
            parts: list[Outputs] = []
            for batch in [read] if len(shapes) == 1 else [[one] for one in read]:
                parts.extend(self._outputs([one.arrays for one in batch], min(size, len(items))))
            parts_left = iter(parts)
            for item, one in zip(group, loaded):
                yield (item, None, one) if isinstance(one, str) else (item, one, next(parts_left))

    def _load(self, item: Item, alone: bool) -> Loaded | str:
        """Return an item's arrays. If it cannot be read, return the reason, or raise the error of an only item."""
        try:
            return self.loader.load(item)
        except (AnyLayerError, OSError) as error:
            if alone:
                raise
            if isinstance(error, AnyLayerError):
                return str(error)
            return f"{error.filename or item.source}: {error.strerror or error}"

    def one(self, loaded: Loaded) -> Outputs:
        """Return the outputs of one item, which does not run in a batch with others."""
        return self._outputs([loaded.arrays], 1)[0]

    def _size(self, items: int) -> int:
        """Return the largest number of items that run together."""
        if self.batch is not None:
            return self.batch
        return self._file_batch() if items > 1 else 1

    def _outputs(self, frames: Sequence[Mapping[str, Array]], size: int) -> list[Outputs]:
        """Return the outputs of frames of one shape, at most `size` of which run together."""
        if not all(array.ndim for array in frames[0].values()):
            return [self._run(frame) for frame in frames]
        if len(frames) > 1 and not self._decided:
            self._decided = True
            return self._choose_way(frames, size)
        if not self._shapes and self._file_batch() > 1:
            try:
                return [self._run(frame) for frame in frames]
            except AnyLayerError as error:
                return self._run_padded(frames, error)
        is_new = (
            tuple((n, (self.batch_size * a.shape[0], *a.shape[1:])) for n, a in frames[0].items())
            not in self._shapes
        )
        if self.batch_size == 1 or (len(frames) == 1 and is_new):
            return [self._run(frame) for frame in frames]
        return self._batch(frames, self.batch_size)

    def _choose_way(self, frames: Sequence[Mapping[str, Array]], count: int) -> list[Outputs]:
        """Run the first frames one by one and as a batch, and choose the faster way for all others."""
        if self.engine == "numpy":  # too slow to run the frames twice
            self.batch_size = count
            return self._batch(frames, count)
        try:
            singles = [self._run(frame) for frame in frames]
        except AnyLayerError:  # the network may accept only the batch size of its file
            self.model = None
            singles = []
        alone, self.seconds = self.seconds, []
        if self.model is not None and _is_single_sample(self.model.engine):
            self.seconds = alone
            self.why_single = f"one by one: engine '{self.model.engine}' does not support batches"
            return singles
        try:
            wholes = self._batch(frames, count)
            if singles and min(self.seconds) > median(alone):  # the first call may have included compilation
                self._batch(frames, count)
        except AnyLayerError as error:
            if not singles:
                return self._run_padded(frames, error)
            self.seconds, self.why_single = alone, f"one by one: {error}"
            return singles
        if not singles or not _same(singles, wholes) or min(self.seconds) <= median(alone):
            self.batch_size = count
            return wholes
        batch, single = map(inspect.tables.duration, (min(self.seconds), median(alone)))
        took = f"{batch} per frame in a batch of {count}, {single} alone"
        self.seconds, self.why_single = alone, f"one by one, because it is faster: {took}"
        return singles

    def _run_padded(self, frames: Sequence[Mapping[str, Array]], error: AnyLayerError) -> list[Outputs]:
        """Run frames that failed with `error` as a padded batch of the file's size, or raise `error`."""
        size = self._file_batch()
        if size <= len(frames):
            raise error
        self.model = None
        try:
            outputs = self._batch(frames, size)
        except AnyLayerError:
            raise error from None
        self.batch_size, self._decided = size, True
        self.why_padded = f"the network accepts only batches of {size}: padded with the last frame"
        return outputs

    def _file_batch(self) -> int:
        """Return the batch size of the first input in the file or in --shape; 1 where it is unknown."""
        first = next(iter(self.loader.types.values()), None)
        return first.shape[0] if first is not None and first.shape and isinstance(first.shape[0], int) else 1

    def _batch(self, frames: Sequence[Mapping[str, Array]], size: int) -> list[Outputs]:
        """Return the outputs of frames that run as one batch of `size`, padded with the last frame."""
        filled = [*frames, *[frames[-1]] * (size - len(frames))]
        arrays = {name: np.concatenate([frame[name] for frame in filled]) for name in frames[0]}
        return split_batch(self._run(arrays, size), size)[: len(frames)]

    def _run(self, arrays: Mapping[str, Array], frames: int = 1) -> Outputs:
        """Compile the model if necessary, run it once and record the time per frame."""
        for name in self.loader.types:
            is_known = name in arrays or name in self.net.network.initial
            need(is_known, f"input '{name}' is missing: give -i {name}=FILE", InputError)
        shapes = {n: a.shape for n, a in arrays.items() if n in self.loader.types}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about host calls, which are reported at the end
            if self.model is None:
                self.model = self.net.compile(self.engine, shapes, self.threads, list(self.blobs) or None)
            outputs, spent = _run_timed(self.model, arrays)
            if not self.seconds and spent < _MAX_RETIMED_SECONDS:
                with libraries.stdout.redirected_stdout(drop=True):
                    spent = min(spent, _run_timed(self.model, arrays)[1])
        key = tuple(shapes.items())
        if not self.seconds or key in self._shapes:  # the first call with other shapes includes compilation
            self.seconds.append(spent / frames)
        self._shapes.add(key)
        return outputs

    @property
    def median_seconds(self) -> float:
        """Return the median time per frame."""
        return median(self.seconds) if self.seconds else 0.0


def _run_timed(model: Model, arrays: Mapping[str, Array]) -> tuple[Outputs, float]:
    start = time.perf_counter()
    outputs = model(arrays)
    return outputs, time.perf_counter() - start


def _same(singles: Sequence[Outputs], wholes: Sequence[Outputs]) -> bool:
    """Return whether frames have the same outputs alone and in a batch, so that no layer mixes samples."""
    for single, whole in zip(singles, wholes):
        want = {name: without_empty_rows(array) for name, array in single.items()}
        results = {name: without_empty_rows(array) for name, array in whole.items()}
        if any(results[name].shape != array.shape for name, array in want.items()) or not runtime.choice.agree(
            results, want
        ):
            return False
    return True


def _is_single_sample(engine: str) -> bool:
    """Return whether an engine runs only one sample at a time."""
    return engine != "numpy" and not load_engine(engine).GENERAL
