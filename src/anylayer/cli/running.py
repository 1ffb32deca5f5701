"""How the items of `anylayer run` are run: together in batches where that is faster, else one by one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from anylayer.cli.results import detected, split
from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError, InputError, need
from anylayer.runtime.choice import agree

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.cli.inputs import Item, Loaded, Loader
    from anylayer.network import Array
    from anylayer.runtime.model import Model

_AGAIN = 0.5
"""Seconds. A first run that took less is timed a second time, when everything is warm."""

Outputs = dict[str, "Array"]


@dataclass
class Runner:
    """Runs items on one compiled model, `batch` of them together, and keeps the time.

    The maps of several frames do not fit the processor's caches where those of one do, so a batch may take more
    time per frame than a single frame. The first batch is therefore run both ways, and the faster way is kept;
    `why_alone` says why frames run one by one although a batch was asked for, `why_filled` why one frame runs in a
    batch.
    """

    net: Net
    loader: Loader
    engine: str
    threads: int | None = None
    blobs: Sequence[str] = ()
    batch: int | None = None
    model: Model | None = None
    seconds: list[float] = field(default_factory=list)
    together: int = 1
    why_alone: str = ""
    why_filled: str = ""
    _shapes: set[object] = field(default_factory=set)
    _decided: bool = False

    def results(self, items: Sequence[Item]) -> Iterator[tuple[Item, Loaded | None, Outputs | str]]:
        """Each item with what was read for it and its outputs; of several, also None and why one is left out."""
        size = self._size(len(items))
        for group in self.loader.batches(items, size):
            loaded = [self._load(item, alone=len(items) == 1) for item in group]
            read = [one for one in loaded if not isinstance(one, str)]
            shapes = {tuple((n, a.shape) for n, a in one.arrays.items()) for one in read}
            parts: list[Outputs] = []
            for batch in [read] if len(shapes) == 1 else [[one] for one in read]:
                parts.extend(self._outputs([one.arrays for one in batch], min(size, len(items))))
            done = iter(parts)
            for item, one in zip(group, loaded):
                yield (item, None, one) if isinstance(one, str) else (item, one, next(done))

    def _load(self, item: Item, alone: bool) -> Loaded | str:
        """What was read for an item; of one among several that cannot be read, why."""
        try:
            return self.loader.load(item)
        except AnyLayerError as error:
            if alone:
                raise
            return str(error)
        except OSError as error:
            if alone:
                raise
            return f"{error.filename or item.source}: {error.strerror or error}"

    def _size(self, items: int) -> int:
        if self.batch is not None:
            return self.batch
        return self._file_batch() if items > 1 else 1

    def _outputs(self, frames: Sequence[Mapping[str, Array]], size: int) -> list[Outputs]:
        """The outputs of frames of one shape, of which `size` run together."""
        if len(frames) > 1 and not self._decided:
            self._decided = True
            return self._decide(frames, size)
        if not self._shapes and self._file_batch() > 1:
            return self._filling(frames)
        is_new = (
            tuple((n, (self.together * a.shape[0], *a.shape[1:])) for n, a in frames[0].items())
            not in self._shapes
        )
        if self.together == 1 or (len(frames) == 1 and is_new):
            return [self._run(frame) for frame in frames]
        return self._batch(frames, self.together)

    def _decide(self, frames: Sequence[Mapping[str, Array]], count: int) -> list[Outputs]:
        """Run the first frames one by one and together, and keep the faster way for all others."""
        if self.engine == "numpy":  # slow enough as it is
            self.together = count
            return self._batch(frames, count)
        try:
            singles = [self._run(frame) for frame in frames]
        except AnyLayerError:  # the network may take no batch but its own
            self.model = None
            singles = []
        alone, self.seconds = self.seconds, []
        if self.model is not None and _takes_one(self.model.engine):
            self.seconds, self.why_alone = alone, f"one by one: engine '{self.model.engine}' takes no batches"
            return singles
        try:
            wholes = self._batch(frames, count)
            if singles and min(self.seconds) > median(alone):  # what is compiled within a call takes time
                self._batch(frames, count)
        except AnyLayerError as error:
            if not singles:
                return self._filled(frames, error)
            self.seconds, self.why_alone = alone, f"one by one: {error}"
            return singles
        if not singles or not _same(singles, wholes) or min(self.seconds) <= median(alone):
            self.together = count
            return wholes
        took = f"{min(self.seconds) * 1e3:.3g} ms a frame in a batch of {count}, {median(alone) * 1e3:.3g} alone"
        self.seconds, self.why_alone = alone, f"one by one, which is faster here: {took}"
        return singles

    def _filling(self, frames: Sequence[Mapping[str, Array]]) -> list[Outputs]:
        """Run the very first frame; where the network takes no batch but the file's, fill that."""
        try:
            return [self._run(frame) for frame in frames]
        except AnyLayerError as error:
            return self._filled(frames, error)

    def _filled(self, frames: Sequence[Mapping[str, Array]], error: AnyLayerError) -> list[Outputs]:
        """Run frames that failed with `error` as a batch of the file's size."""
        size = self._file_batch()
        if size <= len(frames):
            raise error
        self.model = None
        try:
            outputs = self._batch(frames, size)
        except AnyLayerError:
            raise error from None
        self.together, self._decided = size, True
        self.why_filled = f"the network takes batches of {size} only: filled up with the last frame"
        return outputs

    def _file_batch(self) -> int:
        """The number of samples that the file, or --shape, gives the first input."""
        first = next(iter(self.loader.types.values()), None)
        return first.shape[0] if first is not None and first.shape and isinstance(first.shape[0], int) else 1

    def _batch(self, frames: Sequence[Mapping[str, Array]], size: int) -> list[Outputs]:
        """The outputs of frames that run as one batch of `size`; the last frame fills what is left of it."""
        filled = [*frames, *[frames[-1]] * (size - len(frames))]
        arrays = {name: np.concatenate([frame[name] for frame in filled]) for name in frames[0]}
        return split(self._run(arrays, size), size)[: len(frames)]

    def _run(self, arrays: Mapping[str, Array], frames: int = 1) -> Outputs:
        for name in self.loader.types:
            need(name in arrays, f"input '{name}' is missing: give -i {name}=FILE", InputError)
        shapes = {n: a.shape for n, a in arrays.items() if n in self.loader.types}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # host calls: reported at the end
            if self.model is None:
                self.model = self.net.compile(self.engine, shapes, self.threads, list(self.blobs) or None)
            outputs, spent = _timed(self.model, arrays)
            if not self.seconds and spent < _AGAIN:
                outputs, again = _timed(self.model, arrays)
                spent = min(spent, again)
        key = tuple(shapes.items())
        if not self.seconds or key in self._shapes:  # other shapes are compiled within their first call
            self.seconds.append(spent / frames)
        self._shapes.add(key)
        return outputs

    @property
    def milliseconds(self) -> float:
        """The median time of a frame."""
        return median(self.seconds) * 1e3 if self.seconds else 0.0


def _timed(model: Model, arrays: Mapping[str, Array]) -> tuple[Outputs, float]:
    start = time.perf_counter()
    outputs = model(arrays)
    return outputs, time.perf_counter() - start


def _same(singles: Sequence[Outputs], wholes: Sequence[Outputs]) -> bool:
    """Whether frames alone give what they give in a batch: no layer mixes the samples."""
    for single, whole in zip(singles, wholes):
        want = {name: detected(array) for name, array in single.items()}
        got = {name: detected(array) for name, array in whole.items()}
        if any(got[name].shape != array.shape for name, array in want.items()) or not agree(got, want):
            return False
    return True


def _takes_one(engine: str) -> bool:
    return engine != "numpy" and not load_engine(engine).GENERAL
